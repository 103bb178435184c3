// The default network (missdiff_fast/networks/mlp.py) and its sampler over tiles of rows. The activations of a tile,
// about 360 KB at the default width, stay in the caches through all blocks and solver steps.
#include "matmul.h"
#include "normalise.h"
#include "softmax.h"
#include "solver.h"

namespace missdiff::cpu {
namespace {

// The pieces of the packed weights, in the order of `missdiff_fast.networks.packing.pack`.
struct Weights {
  const float* cells;   // [D] to [W]
  const float* states;  // [2 J] to [W]
  const float* start;   // [W]
  const float* blocks;
  const float* outputs;  // [W] to [D + C]
  const float* bias;     // [D + C]

  explicit Weights(const MlpArgs& args) {
    const Columns& columns = args.columns;
    const int64_t J = columns.continuous + columns.categorical, W = whole_panels(args.width);
    cells = args.weights;
    states = cells + columns.width * W;
    start = states + 2 * J * W;
    blocks = start + W;
    outputs = blocks + args.blocks * mlp_block_floats(args.width);
    bias = outputs + args.width * whole_panels(columns.width + columns.continuous);
  }
};

// Activations of one thread: kMlpRows rows.
struct Tile {
  int64_t width, cells, hidden, twice, outs;  // W and the strides of D, W, 2 W and D + C floats
  float *x, *p, *previous;                    // [cells]
  int32_t* state;                             // [cells]
  float *z, *start, *h, *n, *wide, *out;
  float* flags;  // [2 J]
  int64_t flag_stride;

  Tile(const MlpArgs& args, Scratch& scratch) {
    const Columns& columns = args.columns;
    width = args.width;
    cells = whole_panels(columns.width);
    hidden = whole_panels(width);
    twice = whole_panels(2 * width);
    outs = whole_panels(columns.width + columns.continuous);
    flag_stride = whole_panels(2 * (columns.continuous + columns.categorical));
    float** const of_cells[] = {&x, &p, &previous, &z};
    float** const of_hidden[] = {&start, &h, &n};
    for (float** piece : of_cells) *piece = scratch.take<float>(kMlpRows * cells);
    for (float** piece : of_hidden) *piece = scratch.take<float>(kMlpRows * hidden);
    wide = scratch.take<float>(kMlpRows * twice);
    out = scratch.take<float>(kMlpRows * outs);
    flags = scratch.take<float>(kMlpRows * flag_stride);
    state = scratch.take<int32_t>(kMlpRows * cells);
  }
};

// Loads n rows and computes, once for all steps, the part of the input layer that depends on the states only.
void load(const MlpArgs& args, const Weights& weights, int64_t first, int64_t n, Tile& tile) {
  const Columns& columns = args.columns;
  const int64_t C = columns.continuous, D = columns.width, J = C + columns.categorical;
  for (int64_t i = 0; i < kMlpRows; ++i) {
    float* __restrict x = tile.x + i * tile.cells;
    int32_t* __restrict state = tile.state + i * tile.cells;
    float* __restrict flags = tile.flags + i * tile.flag_stride;
    if (i >= n) {  // rows beyond the last: all hidden
      for (int64_t d = 0; d < D; ++d) x[d] = 0.0f;
      for (int64_t d = 0; d < D; ++d) state[d] = kHidden;
      for (int64_t j = 0; j < 2 * J; ++j) flags[j] = 0.0f;
      continue;
    }
    const uint8_t* __restrict states = args.states + (first + i) * J;
    const float* __restrict given = args.x + (first + i) * D;
    spread(columns, states, state);
    for (int64_t d = 0; d < D; ++d) x[d] = given[d];
    for (int64_t j = 0; j < J; ++j) {
      flags[j] = states[j] == kNoisy ? 1.0f : 0.0f;
      flags[J + j] = states[j] == kClean ? 1.0f : 0.0f;
    }
  }
  multiply<Then::kWrite>({tile.flags, tile.flag_stride}, 2 * J, weights.states, weights.start, args.width, kMlpRows,
                         {tile.start, tile.hidden});
}

// Writes the network's output at step t's sigma to `out`: x0 of continuous columns, logits and means.
void predict(const MlpArgs& args, const Weights& weights, int64_t t, Tile& tile) {
  const Columns& columns = args.columns;
  const int64_t C = columns.continuous, D = columns.width, W = args.width;
  const Scales scales = scales_at(args.sigmas[t]);
  for (int64_t i = 0; i < kMlpRows; ++i) {
    const float* __restrict x = tile.x + i * tile.cells;
    const int32_t* __restrict state = tile.state + i * tile.cells;
    float* __restrict z = tile.z + i * tile.cells;
    for (int64_t d = 0; d < C; ++d) z[d] = shown_cell(state[d], x[d], scales.number, kCleanNumber);
    for (int64_t d = C; d < D; ++d) z[d] = shown_cell(state[d], x[d], scales.category, kCleanCategory);
  }
  __builtin_memcpy(tile.h, tile.start, kMlpRows * tile.hidden * sizeof(float));
  multiply<Then::kAdd>({tile.z, tile.cells}, D, weights.cells, nullptr, W, kMlpRows, {tile.h, tile.hidden});
  const float* block = weights.blocks;
  for (int64_t b = 0; b < args.blocks; ++b) {
    const float* gain = block;
    const float* up = gain + tile.hidden;
    const float* up_bias = up + W * tile.twice;
    const float* down = up_bias + tile.twice;
    const float* down_bias = down + 2 * W * tile.hidden;
    const float* shift = args.shifts + (t * args.blocks + b) * W;
    for (int64_t i = 0; i < kMlpRows; ++i) {
      normalise(tile.h + i * tile.hidden, W, gain, shift, tile.n + i * tile.hidden);
    }
    multiply<Then::kSilu>({tile.n, tile.hidden}, W, up, up_bias, 2 * W, kMlpRows, {tile.wide, tile.twice});
    multiply<Then::kAdd>({tile.wide, tile.twice}, 2 * W, down, down_bias, W, kMlpRows, {tile.h, tile.hidden});
    block = down_bias + tile.hidden;
  }
  for (int64_t i = 0; i < kMlpRows; ++i) {
    normalise(tile.h + i * tile.hidden, W, nullptr, nullptr, tile.n + i * tile.hidden);
  }
  multiply<Then::kWrite>({tile.n, tile.hidden}, W, weights.outputs, weights.bias, D + C, kMlpRows,
                         {tile.out, tile.outs});
  for (int64_t i = 0; i < kMlpRows; ++i) {
    const float* __restrict x = tile.x + i * tile.cells;
    const int32_t* __restrict state = tile.state + i * tile.cells;
    float* __restrict out = tile.out + i * tile.outs;
    for (int64_t c = 0; c < C; ++c) out[c] = predicted_score(state[c] == kNoisy, x[c], out[c], scales);
  }
}

// One solver step of n rows: see `step_cell`.
void advance(const MlpArgs& args, int64_t t, int64_t first, int64_t n, Tile& tile, const NoiseTile& noise,
             float* norms) {
  const Columns& columns = args.columns;
  const int64_t C = columns.continuous, D = columns.width;
  const float* c = args.coefficients + 4 * t;
  const StepCoefficients<float> coefficients{c[0], c[1], c[2], c[3]};
  for (int64_t i = 0; i < n; ++i) {
    const float* __restrict out = tile.out + i * tile.outs;
    float* __restrict p = tile.p + i * tile.cells;
    for (int64_t d = 0; d < C; ++d) p[d] = out[d];
    softmax_groups(columns, out, norms, p);
    const float* eps = nullptr;
    if (coefficients.noise != 0.0f) {
      if (i % noise.rows == 0) {
        const int64_t rows = n - i < noise.rows ? n - i : noise.rows;
        fill_noise<true>(noise, args.rows + first + i, rows, args.keys[2 * t], args.keys[2 * t + 1]);
      }
      eps = noise.values + i % noise.rows * noise.stride;
    }
    float* x = tile.x + i * tile.cells;
    step_row(coefficients, tile.state + i * tile.cells, x, p, t > 0 ? tile.previous + i * tile.cells : nullptr, eps, D,
             x);
  }
  float* spare = tile.previous;
  tile.previous = tile.p;
  tile.p = spare;
}

struct SampleMemory {
  NoiseTile noise;
  float* norms;  // [K]
  Tile tile;

  SampleMemory(const MlpArgs& args, Scratch& scratch)
      : noise(noise_tile(args.columns.width, scratch)),
        norms(scratch.take<float>(args.columns.categorical)),
        tile(args, scratch) {}
};

}  // namespace

namespace MISSDIFF_ISA {

size_t mlp_sample_bytes(const MlpArgs& args) { return bytes_of<SampleMemory>(args); }
size_t mlp_predict_bytes(const MlpArgs& args) { return bytes_of<Tile>(args); }

int mlp_sample(const MlpArgs& args, int64_t begin, int64_t end, char* memory) {
  const Columns& columns = args.columns;
  const Weights weights(args);
  Scratch scratch(memory);
  SampleMemory pieces(args, scratch);
  Tile& tile = pieces.tile;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kMlpRows;
    const int64_t n = args.num_rows - first < kMlpRows ? args.num_rows - first : kMlpRows;
    load(args, weights, first, n, tile);
    for (int64_t t = 0; t < args.steps; ++t) {
      predict(args, weights, t, tile);
      advance(args, t, first, n, tile, pieces.noise, pieces.norms);
    }
    for (int64_t i = 0; i < n; ++i) {
      __builtin_memcpy(args.out + (first + i) * columns.width, tile.x + i * tile.cells, columns.width * sizeof(float));
    }
  }
  return 0;
}

int mlp_predict(const MlpArgs& args, int64_t begin, int64_t end, char* memory) {
  const int64_t outputs = args.columns.width + args.columns.continuous;
  const Weights weights(args);
  Scratch scratch(memory);
  Tile tile(args, scratch);
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kMlpRows;
    const int64_t n = args.num_rows - first < kMlpRows ? args.num_rows - first : kMlpRows;
    load(args, weights, first, n, tile);
    predict(args, weights, 0, tile);
    for (int64_t i = 0; i < n; ++i) {
      __builtin_memcpy(args.out + (first + i) * outputs, tile.out + i * tile.outs, outputs * sizeof(float));
    }
  }
  return 0;
}

}  // namespace MISSDIFF_ISA
}  // namespace missdiff::cpu
