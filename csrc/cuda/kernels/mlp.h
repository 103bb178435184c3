// Common parts of the kernels of the default network (missdiff_fast/networks/mlp.py) and its sampler. One launch runs
// rows through all blocks of the network and all solver steps: mlp_narrow.h up to a width of 128, mlp_wide.h beyond.
#pragma once

#include "random.h"
#include "warp.h"

namespace missdiff::cuda {

struct MlpArgs {
  Columns columns;
  const char* tiles;          // of weights, as `missdiff_fast.networks.packing_cuda.pack` lays them out
  const float* vectors;       // gain, up's and down's bias of each block, bias of the inputs, bias of the outputs
  int width;                  // W
  int blocks;                 // residual blocks
  int steps;                  // of the solver; 0 to predict at the first sigma
  int outputs;                // D, or D + C to predict
  const float* sigmas;        // [steps]
  const float* shifts;        // [steps, blocks, W] added after each block's normalisation
  const float* coefficients;  // [steps, 4]
  const int64_t* keys;        // [steps, 2]
  const int64_t* rows;        // [B]
  const uint8_t* states;      // [B, J]
  const float* x;             // [B, D]
  int64_t num_rows;           // B
  float* out;                 // [B, D] or [B, D + C]
  int warps;                  // of a block
  bool shared_cells;          // whether the cells are in shared memory, else in scratch
  char* scratch;              // the cells of all blocks, then the starts of all warps; see `MlpPlan`
  int stride;                 // of rows of cells
  Divider by_stride, by_quads, by_groups;  // the stride, quads of a row, K
};

MISSDIFF_INLINE int panels_of(int n) { return (n + kPanel - 1) / kPanel; }

// An odd multiple of 8, so that a warp's reads of a panel are spread over all banks.
MISSDIFF_INLINE int cell_stride(int width) { return (width + 7) / 16 * 16 + 8; }

// Cells of some rows during sampling.
struct Cells {
  float *x, *p, *previous;  // [rows, stride]
  uint8_t* state;           // [rows, stride] of each encoded column
  int rows, stride;
};

MISSDIFF_INLINE int64_t cell_bytes(int rows, int stride) {
  return (static_cast<int64_t>(rows) * stride * 13 + 64 + 15) / 16 * 16;
}

MISSDIFF_INLINE Cells make_cells(char* memory, int rows, int stride) {
  float* x = reinterpret_cast<float*>(memory);
  const int64_t each = static_cast<int64_t>(rows) * stride;
  return {x, x + each, x + 2 * each, reinterpret_cast<uint8_t*>(x + 3 * each), rows, stride};
}

struct alignas(8) Two {
  float first, second;
};
struct alignas(2) TwoStates {
  uint8_t v[2];
};
struct alignas(4) FourStates {
  uint8_t v[4];
};

// The following functions are each run by `workers` threads together; `worker` is the index of one.

// Loads the rows from `first` on. Rows beyond the last are hidden, and their results are dropped.
MISSDIFF_INLINE void load_cells(const MlpArgs& args, const Cells& cells, int64_t first, int worker, int workers) {
  const Columns& columns = args.columns;
  const int D = columns.width, J = columns.continuous + columns.categorical;
  for (int item = worker; item < cells.rows * cells.stride; item += workers) {
    const int i = quotient(item, args.by_stride), d = item - i * cells.stride;
    const bool there = d < D && first + i < args.num_rows;
    cells.x[item] = there ? args.x[(first + i) * D + d] : 0.0f;
    cells.state[item] = there ? args.states[(first + i) * J + find_spot(columns, d).column] : kHidden;
    cells.previous[item] = 0.0f;
  }
}

MISSDIFF_INLINE void store_cells(const MlpArgs& args, const Cells& cells, int64_t first, int worker, int workers) {
  const int D = args.columns.width;
  for (int item = worker; item < cells.rows * cells.stride; item += workers) {
    const int i = quotient(item, args.by_stride), d = item - i * cells.stride;
    if (d < D && first + i < args.num_rows) args.out[(first + i) * D + d] = cells.x[item];
  }
}

#ifndef __CUDA_ARCH__
// The host's result, made as wrong as a device's may be: by so many units in the last place, up or down by its bits.
inline float wrong_by(float exact, int units) {
  constexpr float kLeast = 1e-30f, kMost = 1e30f;
  const float size = __builtin_fabsf(exact);
  if (!(size > kLeast && size < kMost)) return exact;
  const int32_t bits = float_bits(exact);
  const bool up = static_cast<uint32_t>(bits) * 2654435761u >> 31 != 0;
  return bits_float(up ? bits + units : bits - units);
}
#endif

// exp. A device's is wrong by up to 2 + floor(|1.173 x|) units in the last place, by the CUDA C++ Programming Guide;
// its older editions have 1.16.
MISSDIFF_INLINE float quick_exp(float x) {
#ifdef __CUDA_ARCH__
  return __expf(x);
#else
  return wrong_by(__builtin_expf(x), 2 + static_cast<int>(1.173f * __builtin_fminf(__builtin_fabsf(x), 100.0f)));
#endif
}

// x / y for y from 1 on. A device's is wrong by up to 2 units in the last place, by the same guide, and 0 for y beyond
// 2^126.
MISSDIFF_INLINE float quick_quotient(float x, float y) {
#ifdef __CUDA_ARCH__
  return __fdividef(x, y);
#else
  return wrong_by(x / y, 2);
#endif
}

// Soft-max of each group, in place.
MISSDIFF_INLINE void softmax_cells(const MlpArgs& args, const Cells& cells, int worker, int workers) {
  const Columns& columns = args.columns;
  const int K = columns.categorical;
  for (int item = worker; item < cells.rows * K; item += workers) {
    const int i = quotient(item, args.by_groups), k = item - i * K;
    const int begin = static_cast<int>(columns.offsets[k]), size = static_cast<int>(columns.offsets[k + 1]) - begin;
    float* p = cells.p + i * cells.stride + begin;
    float largest = p[0], sum = 0.0f;
    for (int j = 1; j < size; ++j) largest = p[j] > largest ? p[j] : largest;
    for (int j = 0; j < size; ++j) {
      p[j] = quick_exp(p[j] - largest);
      sum += p[j];
    }
    const float scale = 1.0f / sum;
    for (int j = 0; j < size; ++j) p[j] *= scale;
  }
}

// One solver step of the cells, from p.
MISSDIFF_INLINE void advance_cells(const MlpArgs& args, const Cells& cells, int64_t first, int t, int worker,
                                   int workers) {
  const float* c = args.coefficients + 4 * t;
  const StepCoefficients<float> coefficients{c[0], c[1], c[2], c[3]};
  const bool noise = coefficients.noise != 0.0f;
  const int quads = static_cast<int>(args.by_quads.divisor);
  for (int item = worker; item < cells.rows * quads; item += workers) {
    const int i = quotient(item, args.by_quads), block = item - i * quads, place = i * cells.stride + 4 * block;
    Four x = load_as<Four>(cells.x + place);
    const Four p = load_as<Four>(cells.p + place), previous = load_as<Four>(cells.previous + place);
    const FourStates state = load_as<FourStates>(cells.state + place);
    float eps[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (noise) {
      const int64_t row = first + i < args.num_rows ? args.rows[first + i] : 0;
      normal_quad(args.keys + 2 * t, row, block, eps);
    }
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      x.v[j] = step_cell(coefficients, t > 0, noise, x.v[j], p.v[j], previous.v[j], eps[j], state.v[j]);
    }
    store_as(cells.x + place, x);
    store_as(cells.previous + place, p);
  }
}

// The network's flags of the states: for each column whether it is noisy, then for each whether it is clean.
MISSDIFF_INLINE Panel flags_panel(const MlpArgs& args, int64_t first, int panel, int lane) {
  const int J = args.columns.continuous + args.columns.categorical;
  Panel flags;
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const int64_t row = first + sum_row(lane, i);
      const int f = kPanel * panel + panel_column(lane, half, i), wanted = f < J ? kNoisy : kClean;
      const bool set = f < 2 * J && row < args.num_rows && args.states[row * J + (f < J ? f : f - J)] == wanted;
      flags.v[half][i] = set ? 1.0f : 0.0f;
    }
  }
  return flags;
}

// The network's inputs for the cells of 16 rows from `row` on.
MISSDIFF_INLINE Panel shown_panel(const MlpArgs& args, const Cells& cells, const Scales& scales, int row, int panel,
                                  int lane) {
  Panel shown;
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(2)
    for (int pair = 0; pair < 2; ++pair) {
      const int d = kPanel * panel + panel_column(lane, half, 0);
      Two x{0.0f, 0.0f};
      TwoStates state{{kHidden, kHidden}};
      if (d < cells.stride) {  // the stride may end within a panel
        const int place = (row + sum_row(lane, 2 * pair)) * cells.stride + d;
        x = load_as<Two>(cells.x + place);
        state = load_as<TwoStates>(cells.state + place);
      }
      MISSDIFF_UNROLL(2)
      for (int i = 0; i < 2; ++i) {
        const bool number = d + i < args.columns.continuous;
        const float noisy = number ? scales.number : scales.category, clean = number ? kCleanNumber : kCleanCategory;
        shown.v[half][2 * pair + i] = shown_cell(state.v[i], i == 0 ? x.first : x.second, noisy, clean);
      }
    }
  }
  return shown;
}

// Stores the network's output for 16 rows from `row` on: in the cells when sampling, else in the result.
MISSDIFF_INLINE void emit_panel(const MlpArgs& args, const Cells& cells, const Scales& scales, int64_t first, int row,
                                int panel, int lane, const Panel& out) {
  const int C = args.columns.continuous;
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const int d = kPanel * panel + panel_column(lane, half, i), own = row + sum_row(lane, i);
      if (d >= args.outputs) continue;
      float value = out.v[half][i];
      if (d < C) {
        const int place = own * cells.stride + d;
        value = predicted_score(cells.state[place] == kNoisy, cells.x[place], value, scales);
      }
      if (args.steps > 0) {
        cells.p[own * cells.stride + d] = value;
      } else if (first + own < args.num_rows) {
        args.out[(first + own) * args.outputs + d] = value;
      }
    }
  }
}

// A vector's numbers of a panel's columns.
MISSDIFF_INLINE Panel spread_vector(const float* vector, int panel, int lane) {
  Panel spread;
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    const Two both = load_as<Two>(vector + kPanel * panel + panel_column(lane, half, 0));
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) spread.v[half][i] = i % 2 == 0 ? both.first : both.second;
  }
  return spread;
}

MISSDIFF_INLINE void add_panel(Panel& to, const Panel& added) {
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) to.v[half][i] += added.v[half][i];
  }
}

// x / (1 + exp(-x))
MISSDIFF_INLINE float silu(float x) { return quick_quotient(x, 1.0f + quick_exp(-x)); }

MISSDIFF_INLINE void silu_panel(Panel& panel) {
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) panel.v[half][i] = silu(panel.v[half][i]);
  }
}

// Add the sums of a panel's rows, and of squared deviations from a mean, without the columns beyond W.
MISSDIFF_INLINE void add_sums(const Panel& panel, RowPair& sums) {
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    sums.upper += panel.v[half][0] + panel.v[half][1];  // those columns hold zeros
    sums.lower += panel.v[half][2] + panel.v[half][3];
  }
}
MISSDIFF_INLINE void add_squares(const Panel& panel, int index, int lane, int width, const RowPair& mean,
                                 RowPair& sums) {
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      const bool counts = kPanel * index + panel_column(lane, half, i) < width;
      const float upper = counts ? panel.v[half][i] - mean.upper : 0.0f;
      const float lower = counts ? panel.v[half][2 + i] - mean.lower : 0.0f;
      sums.upper = fused_multiply_add(upper, upper, sums.upper);
      sums.lower = fused_multiply_add(lower, lower, sums.lower);
    }
  }
}

// 1 / standard deviation, given the sum of squared deviations. An overflowing variance gives NaN: a scale of 0 would
// hide that the network diverged.
MISSDIFF_INLINE float inverse_std(float squares, int width) {
  const float variance = squares / static_cast<float>(width);
  return 1.0f / square_root(variance + 1e-5f) + (variance - variance);
}

// (h - mean) scale gain + shift
MISSDIFF_INLINE Panel normal_panel(const Panel& panel, const RowPair& mean, const RowPair& scale) {
  Panel result;
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const float m = i < 2 ? mean.upper : mean.lower, s = i < 2 ? scale.upper : scale.lower;
      result.v[half][i] = (panel.v[half][i] - m) * s;
    }
  }
  return result;
}
MISSDIFF_INLINE Panel normal_panel(const Panel& panel, const RowPair& mean, const RowPair& scale, const Panel& gain,
                                   const Panel& shift) {
  Panel result = normal_panel(panel, mean, scale);
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      result.v[half][i] = fused_multiply_add(result.v[half][i], gain.v[half][i], shift.v[half][i]);
    }
  }
  return result;
}

// Positions of the vectors of a network whose width is rounded up to `padded`.
struct Vectors {
  const float *inputs, *blocks, *outputs;
  int padded;

  MISSDIFF_INLINE Vectors of(const float* vectors, int padded, int blocks) {
    return {vectors, vectors + padded, vectors + padded + int64_t{4} * blocks * padded, padded};
  }
  MISSDIFF_MEMBER const float* gain(int b) const { return blocks + int64_t{4} * b * padded; }
  MISSDIFF_MEMBER const float* up(int b) const { return gain(b) + padded; }
  MISSDIFF_MEMBER const float* down(int b) const { return gain(b) + 3 * padded; }
};

// The shift's numbers of a panel's columns; 0 beyond W.
MISSDIFF_INLINE Panel spread_shift(const MlpArgs& args, int t, int b, int panel, int lane) {
  const float* shift = args.shifts + (static_cast<int64_t>(t) * args.blocks + b) * args.width;
  Panel spread;
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      const int w = kPanel * panel + panel_column(lane, half, i);
      spread.v[half][i] = spread.v[half][2 + i] = w < args.width ? shift[w] : 0.0f;
    }
  }
  return spread;
}

constexpr int kNarrowPanels = 8;  // a width of 128, the most of mlp_narrow.h

// Narrow networks read weights by chunks of 8 to 16 KiB. A chunk has so many runs of `panels` tiles, one run for each
// panel of a layer's inputs; wide networks have no chunks.
MISSDIFF_INLINE constexpr int chunk_runs(int panels, int tile_bytes) {
  return panels > kNarrowPanels ? 1 : (panels <= 4 ? 4096 : 2048) / tile_bytes;
}

// Runs of one pass through a network whose width is rounded up to `panels`. Each layer begins with a chunk.
struct PassRuns {
  int flags, cells, blocks, outputs;

  MISSDIFF_MEMBER PassRuns(const MlpArgs& args, int panels, int tile_bytes)
      : flags(whole(panels_of(2 * (args.columns.continuous + args.columns.categorical)), panels, tile_bytes)),
        cells(whole(panels_of(args.columns.width), panels, tile_bytes)),
        blocks(4 * panels * args.blocks),
        outputs(whole(panels_of(args.outputs), panels, tile_bytes)) {}
  MISSDIFF_MEMBER int all() const { return flags + cells + blocks + outputs; }

 private:
  MISSDIFF_INLINE int whole(int n, int panels, int tile_bytes) {
    const int runs = chunk_runs(panels, tile_bytes);
    return (n + runs - 1) / runs * runs;
  }
};

}  // namespace missdiff::cuda
