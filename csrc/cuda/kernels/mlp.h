// The default network (missdiff_fast/networks/mlp.py) and its sampler. One launch takes rows through all blocks of the
// network and all steps of the solver. Networks up to 128 wide: a warp has 16 rows of its own, whose activations never
// leave its registers, since a product's sums lie as the next product's factor has to; weights are a stream that the
// warps of a block read together, in the order of their use. Wider networks: see mlp_wide.h.
#pragma once

#include "noise.h"
#include "warp.h"

namespace missdiff {

struct MlpArgs {
  Columns columns;
  const char* tiles;          // of weights, as `missdiff_fast.networks.tiles.pack` lays them
  const float* vectors;       // gain, up's and down's bias of each block, bias of the inputs, bias of the outputs
  int width;                  // W
  int blocks;                 // residual blocks
  int steps;                  // of the solver; 0 to predict at the first level
  int outputs;                // D, or D + C to predict
  const float* levels;        // [steps] sigma
  const float* shifts;        // [steps, blocks, W] what follows each block's normalisation
  const float* coefficients;  // [steps, 4]
  const int64_t* keys;        // [steps, 2]
  const int64_t* rows;        // [B]
  const uint8_t* states;      // [B, J]
  const float* x;             // [B, D]
  int64_t num_rows;           // B
  float* out;                 // [B, D] or [B, D + C]
  int warps;                  // of a block
  char* scratch;              // of all blocks' cells where shared memory has no room for them, else null
  int stride;                 // of rows of cells
  Divider by_stride, by_quads, by_groups;  // the stride, quads of a row, K
};

MISSDIFF_INLINE int panels_of(int n) { return (n + kPanel - 1) / kPanel; }

// An odd number of times 8, so that what the lanes of a warp read of a panel lies in all banks.
MISSDIFF_INLINE int cell_stride(int width) { return (width + 7) / 16 * 16 + 8; }

// The cells of some rows while they are drawn.
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

// Each of the following is done by `workers` threads together, of which one is `worker`.

// The rows from `first` on. Rows beyond the last are hidden, and their results are not kept.
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

// exp of a number up to 0, to some units in the last place.
MISSDIFF_INLINE float quick_exp(float x) {
#ifdef __CUDA_ARCH__
  return __expf(x);
#else
  return __builtin_expf(x);
#endif
}

// Logits to probabilities, group by group.
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

// x <- c0 x + c1 p + c2 previous + c3 eps where a cell is not clean; see missdiff_fast.reference.step.
MISSDIFF_INLINE void advance_cells(const MlpArgs& args, const Cells& cells, int64_t first, int t, int worker,
                                   int workers) {
  const float* c = args.coefficients + 4 * t;
  const float c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
  const int quads = static_cast<int>(args.by_quads.divisor);
  for (int item = worker; item < cells.rows * quads; item += workers) {
    const int i = quotient(item, args.by_quads), block = item - i * quads, place = i * cells.stride + 4 * block;
    Four x = load_as<Four>(cells.x + place);
    const Four p = load_as<Four>(cells.p + place), previous = load_as<Four>(cells.previous + place);
    const FourStates state = load_as<FourStates>(cells.state + place);
    float eps[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (c3 != 0.0f) {
      const int64_t row = first + i < args.num_rows ? args.rows[first + i] : 0;
      normal_quad(args.keys + 2 * t, row, block, eps);
    }
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      float after = c0 * x.v[j] + c1 * p.v[j];
      if (t > 0) after += c2 * previous.v[j];
      if (c3 != 0.0f) after += c3 * eps[j];
      x.v[j] = state.v[j] == kClean ? x.v[j] : after;
    }
    store_as(cells.x + place, x);
    store_as(cells.previous + place, p);
  }
}

// The states' flags that the network is told: of columns 0 to J whether they are noisy, then whether they are clean.
MISSDIFF_INLINE Panel flags_panel(const MlpArgs& args, int64_t first, int panel, int lane) {
  const int J = args.columns.continuous + args.columns.categorical;
  Panel flags;
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const int64_t row = first + panel_row(lane, i);
      const int f = kPanel * panel + panel_column(lane, half, i), wanted = f < J ? kNoisy : kClean;
      const bool set = f < 2 * J && row < args.num_rows && args.states[row * J + (f < J ? f : f - J)] == wanted;
      flags.v[half][i] = set ? 1.0f : 0.0f;
    }
  }
  return flags;
}

// The cells of 16 rows from `row` on as the network is shown them.
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
        const int place = (row + panel_row(lane, 2 * pair)) * cells.stride + d;
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

// The network's output for 16 rows from `row` on: to the cells to be drawn on with, or to the result.
MISSDIFF_INLINE void emit_panel(const MlpArgs& args, const Cells& cells, const Scales& scales, int64_t first, int row,
                                int panel, int lane, const Panel& out) {
  const int C = args.columns.continuous;
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const int d = kPanel * panel + panel_column(lane, half, i), own = row + panel_row(lane, i);
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

// A vector's numbers for the columns of a panel.
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
MISSDIFF_INLINE void silu_panel(Panel& panel) {
  MISSDIFF_UNROLL(2)
  for (int half = 0; half < 2; ++half) {
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      const float x = panel.v[half][i];
#ifdef __CUDA_ARCH__
      panel.v[half][i] = __fdividef(x, 1.0f + __expf(-x));
#else
      panel.v[half][i] = x / (1.0f + __builtin_expf(-x));
#endif
    }
  }
}

// The sums of a panel's rows, and of the squared distances from a mean; columns from W on do not count.
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

// What rows are multiplied by to have a standard deviation of 1, given the sum of squares. A variance that overflows is
// no scale of 0, which would hide that the network diverged: the result is NaN.
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

// Where the vectors of a network lie whose width is rounded up to `padded`.
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

// The shift's numbers of a panel; what is beyond W is 0.
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

constexpr int kMostWarps = 8;           // of a block
constexpr int kChunkBytes = 16 * 1024;  // of the stream of weights, which warps wait for together
constexpr int kStages = 3;              // chunks in shared memory: one in use, the others on their way

// Tiles of weights in the order of their use, over and over: a pass of the network after another. All threads of a
// block take every tile, through a ring of chunks in shared memory, so that global memory is read once for all of them.
template <class Product>
class TileStream {
 public:
  MISSDIFF_MEMBER TileStream(const char* tiles, int64_t pass_tiles, char* ring, int threads)
      : tiles_(tiles), ring_(ring), threads_(threads) {
    chunks_ = static_cast<int>((pass_tiles + kChunkTiles - 1) / kChunkTiles);
    for (int stage = 0; stage + 1 < kStages; ++stage) request();
  }

  MISSDIFF_MEMBER void begin_pass() { used_ = 0; }

  // The next tile, to be read before another is taken.
  MISSDIFF_MEMBER const char* next() {
    const int place = used_ % kChunkTiles;
    if (place == 0) {
      await_copies<kStages - 2>();
      block_barrier();  // the chunk is there, and nobody reads the one that the request is to overwrite
      request();
      current_ = current_ + 1 == kStages ? 0 : current_ + 1;
    }
    ++used_;
    return ring_ + current_ * kChunkBytes + place * Product::kTileBytes;
  }

  // Nothing may be on its way to memory that has been given back.
  MISSDIFF_MEMBER void finish() { await_copies<0>(); }

 private:
  static constexpr int kChunkTiles = kChunkBytes / Product::kTileBytes;

  MISSDIFF_MEMBER void request() {
    copy_ahead(tiles_ + int64_t{kChunkBytes} * wanted_, ring_ + stage_ * kChunkBytes, kChunkBytes, threads_);
    wanted_ = wanted_ + 1 == chunks_ ? 0 : wanted_ + 1;
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
  }

  const char* tiles_;
  char* ring_;
  int threads_, chunks_;
  int used_ = 0;                // tiles of this pass
  int wanted_ = 0, stage_ = 0;  // the next chunk to be asked for, and where it goes
  int current_ = kStages - 1;   // where the chunk in use is
};

template <class Product>
MISSDIFF_INLINE PerLane<typename Product::Right> take(TileStream<Product>& stream) {
  const char* tile = stream.next();
  PerLane<typename Product::Right> right;
  MISSDIFF_LANES(lane) right[lane] = Product::right(tile, lane);
  return right;
}

// Tiles of one pass through a network whose width is rounded up to so many panels.
MISSDIFF_INLINE int64_t pass_tiles(const MlpArgs& args, int panels) {
  const int J = args.columns.continuous + args.columns.categorical;
  const int64_t n = panels, ends = panels_of(2 * J) + panels_of(args.columns.width) + panels_of(args.outputs);
  return n * ends + 4 * n * n * args.blocks;
}

// A network whose width is rounded up to kPanels panels.
template <class Product, int kPanels>
struct MlpNarrow {
  using Left = typename Product::Left;
  using Right = typename Product::Right;
  static constexpr int kPadded = kPanels * kPanel;

  // All steps of the 16 rows from `first` on.
  MISSDIFF_INLINE void run_warp(const MlpArgs& args, const Cells& cells, int64_t first, TileStream<Product>& stream) {
    warp_barrier();  // all lanes are done with the rows before
    MISSDIFF_LANES(lane) load_cells(args, cells, first, lane, kLanes);
    warp_barrier();
    const int passes = args.steps > 0 ? args.steps : 1;
    for (int t = 0; t < passes; ++t) {
      predict(args, cells, first, t, stream);
      if (args.steps == 0) return;
      warp_barrier();
      MISSDIFF_LANES(lane) softmax_cells(args, cells, lane, kLanes);
      warp_barrier();
      MISSDIFF_LANES(lane) advance_cells(args, cells, first, t, lane, kLanes);
      warp_barrier();
    }
    MISSDIFF_LANES(lane) store_cells(args, cells, first, lane, kLanes);
  }

  MISSDIFF_INLINE void predict(const MlpArgs& args, const Cells& cells, int64_t first, int t,
                               TileStream<Product>& stream) {
    const int J = args.columns.continuous + args.columns.categorical;
    const Scales scales = scales_at(args.levels[t]);
    const Vectors vectors = Vectors::of(args.vectors, kPadded, args.blocks);
    stream.begin_pass();
    PerLane<Panel> h[kPanels];
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kPanels; ++j) {
      MISSDIFF_LANES(lane) h[j][lane] = spread_vector(vectors.inputs, j, lane);
    }
    for (int k = 0; k < panels_of(2 * J); ++k) {
      PerLane<Left> left;
      MISSDIFF_LANES(lane) left[lane] = Product::left(flags_panel(args, first, k, lane));
      add_product(h, left, stream);
    }
    for (int k = 0; k < panels_of(args.columns.width); ++k) {
      PerLane<Left> left;
      MISSDIFF_LANES(lane) left[lane] = Product::left(shown_panel(args, cells, scales, 0, k, lane));
      add_product(h, left, stream);
    }
    PerLane<Left> n[kPanels];
    for (int b = 0; b < args.blocks; ++b) {
      PerLane<RowPair> mean, scale;
      measure(args, h, mean, scale);
      MISSDIFF_UNROLL_ALL
      for (int j = 0; j < kPanels; ++j) {
        MISSDIFF_LANES(lane) {
          const Panel gain = spread_vector(vectors.gain(b), j, lane), shift = spread_shift(args, t, b, j, lane);
          n[j][lane] = Product::left(normal_panel(h[j][lane], mean[lane], scale[lane], gain, shift));
          add_panel(h[j][lane], spread_vector(vectors.down(b), j, lane));
        }
      }
      add_block(vectors.up(b), n, h, stream);
    }
    PerLane<RowPair> mean, scale;
    measure(args, h, mean, scale);
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kPanels; ++j) {
      MISSDIFF_LANES(lane) n[j][lane] = Product::left(normal_panel(h[j][lane], mean[lane], scale[lane]));
    }
    for (int o = 0; o < panels_of(args.outputs); ++o) {
      PerLane<Panel> out;
      MISSDIFF_LANES(lane) out[lane] = spread_vector(vectors.outputs, o, lane);
      MISSDIFF_UNROLL_ALL
      for (int k = 0; k < kPanels; ++k) Product::multiply(out, n[k], take(stream));
      MISSDIFF_LANES(lane) emit_panel(args, cells, scales, first, 0, o, lane, out[lane]);
    }
  }

 private:
  MISSDIFF_INLINE void add_product(PerLane<Panel> (&sums)[kPanels], const PerLane<Left>& left,
                                   TileStream<Product>& stream) {
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kPanels; ++j) Product::multiply(sums[j], left, take(stream));
  }

  // h <- h + down(silu(up(n))), by two panels of the hidden layer at a time.
  MISSDIFF_INLINE void add_block(const float* up_bias, const PerLane<Left> (&n)[kPanels], PerLane<Panel> (&h)[kPanels],
                                 TileStream<Product>& stream) {
    for (int u = 0; u < 2 * kPanels; u += 2) {
      PerLane<Panel> hidden[2];
      MISSDIFF_UNROLL(2)
      for (int c = 0; c < 2; ++c) {
        MISSDIFF_LANES(lane) hidden[c][lane] = spread_vector(up_bias, u + c, lane);
      }
      MISSDIFF_UNROLL_ALL
      for (int k = 0; k < kPanels; ++k) {
        MISSDIFF_UNROLL(2)
        for (int c = 0; c < 2; ++c) Product::multiply(hidden[c], n[k], take(stream));
      }
      MISSDIFF_UNROLL(2)
      for (int c = 0; c < 2; ++c) {
        PerLane<Left> left;
        MISSDIFF_LANES(lane) {
          silu_panel(hidden[c][lane]);
          left[lane] = Product::left(hidden[c][lane]);
        }
        add_product(h, left, stream);
      }
    }
  }

  // Means of the rows, and what brings their standard deviation to 1.
  MISSDIFF_INLINE void measure(const MlpArgs& args, const PerLane<Panel> (&h)[kPanels], PerLane<RowPair>& mean,
                               PerLane<RowPair>& scale) {
    PerLane<RowPair> sums;
    MISSDIFF_LANES(lane) {
      sums[lane] = {0.0f, 0.0f};
      MISSDIFF_UNROLL_ALL
      for (int j = 0; j < kPanels; ++j) add_sums(h[j][lane], sums[lane]);
    }
    sum_rows(sums);
    MISSDIFF_LANES(lane) {
      mean[lane] = {sums[lane].upper / static_cast<float>(args.width),
                    sums[lane].lower / static_cast<float>(args.width)};
      sums[lane] = {0.0f, 0.0f};
      MISSDIFF_UNROLL_ALL
      for (int j = 0; j < kPanels; ++j) add_squares(h[j][lane], j, lane, args.width, mean[lane], sums[lane]);
    }
    sum_rows(sums);
    MISSDIFF_LANES(lane) {
      scale[lane] = {inverse_std(sums[lane].upper, args.width), inverse_std(sums[lane].lower, args.width)};
    }
  }
};

}  // namespace missdiff
