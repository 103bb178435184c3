// One training step of the default network: forward, loss and backward pass of each tile of rows. The gradients of a
// buffer's tiles are added in order.
#include "matmul.h"
#include "normalise.h"
#include "transposes.h"

namespace missdiff::cpu {
namespace {

// One block's weights, or their gradients.
template <class F>
struct BlockWeights {
  F *gain, *shift, *up, *up_bias, *down, *down_bias;
};

// The pieces of the flat weights, in the order of the parameters of `missdiff_fast.networks.Denoiser`.
template <class F>
struct TrainWeights {
  F *inputs, *start;                       // [D + 2 J] to [W]
  F *level, *level_bias, *out, *out_bias;  // the noise level's [E] to [W], and [W] to [W]
  F *gain, *shift, *outputs, *bias;        // [W] to [D + C]

  TrainWeights(const MlpTrainArgs& args, F* flat) : next_(flat), width_(args.width) {
    const Columns& columns = args.perturb.batch.columns;
    const int64_t J = columns.continuous + columns.categorical, W = args.width;
    inputs = take(panel_floats(columns.width + 2 * J, W));
    start = take(whole_panels(W));
    level = take(panel_floats(args.features, W));
    level_bias = take(whole_panels(W));
    out = take(panel_floats(W, W));
    out_bias = take(whole_panels(W));
    first_ = next_;
    next_ += args.blocks * block_floats();
    gain = take(whole_panels(W));
    shift = take(whole_panels(W));
    outputs = take(panel_floats(W, columns.width + columns.continuous));
    bias = take(whole_panels(columns.width + columns.continuous));
  }

  BlockWeights<F> block(int64_t b) const {
    BlockWeights<F> w;
    w.gain = first_ + b * block_floats();
    w.shift = w.gain + whole_panels(width_);
    w.up = w.shift + whole_panels(width_);
    w.up_bias = w.up + panel_floats(width_, 2 * width_);
    w.down = w.up_bias + whole_panels(2 * width_);
    w.down_bias = w.down + panel_floats(2 * width_, width_);
    return w;
  }

 private:
  F* take(int64_t n) {
    F* piece = next_;
    next_ += n;
    return piece;
  }
  int64_t block_floats() const { return mlp_block_floats(width_) + whole_panels(width_); }

  F *next_, *first_;
  int64_t width_;
};

// One block's activations, saved for the backward pass.
struct BlockRows {
  Rows unit, n, wide, slope;  // normalised; with gain, shift and level; after SiLU; SiLU's derivative
  float* scale;               // of the normalisation
};

constexpr int64_t kAllRows = (kTrainRows + kBlock - 1) / kBlock * kBlock;

// Activations of one thread: up to kTrainRows rows, padded to whole blocks of the products.
struct TrainTile {
  Rows in, features, level, level_slope, embedded, h, unit, last, grad, grad_level, wide, out;
  float* scale;
  int32_t* state;

  TrainTile(const MlpTrainArgs& args, Scratch& scratch) {
    const Columns& columns = args.perturb.batch.columns;
    const int64_t J = columns.continuous + columns.categorical, W = args.width;
    hidden_ = train_stride(W);
    twice_ = train_stride(2 * W);
    in = take(scratch, columns.width + 2 * J);
    features = take(scratch, args.features);
    Rows* const of_hidden[] = {&level, &level_slope, &embedded, &h, &unit, &last, &grad, &grad_level};
    for (Rows* piece : of_hidden) *piece = take(scratch, W);
    wide = take(scratch, 2 * W);
    out = take(scratch, columns.width + columns.continuous);
    scale = scratch.take<float>(kAllRows);
    state = scratch.take<int32_t>(columns.width);
    blocks_ = scratch.take<float>(args.blocks * block_floats());
  }

  BlockRows block(int64_t b) const {
    float* at = blocks_ + b * block_floats();
    BlockRows rows;
    rows.unit = {at, hidden_};
    rows.n = {at + kAllRows * hidden_, hidden_};
    rows.wide = {at + 2 * kAllRows * hidden_, twice_};
    rows.slope = {at + kAllRows * (2 * hidden_ + twice_), twice_};
    rows.scale = at + kAllRows * 2 * (hidden_ + twice_);
    return rows;
  }

 private:
  static Rows take(Scratch& scratch, int64_t width) {
    const int64_t stride = train_stride(width);
    return {scratch.take<float>(kAllRows * stride), stride};
  }
  int64_t block_floats() const { return kAllRows * (2 * (hidden_ + twice_) + kPanel); }

  int64_t hidden_, twice_;
  float* blocks_;
};

// SiLU of n rows in place, and its derivative.
inline void silu_rows(const Rows& x, int64_t n, int64_t width, const Rows& slope) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < whole_panels(width); j += kFloats) {
      Floats* cells = reinterpret_cast<Floats*>(x.row(i) + j);
      *cells = silu(*cells, *reinterpret_cast<Floats*>(slope.row(i) + j));
    }
  }
}

inline void multiply_cells(const Rows& x, int64_t n, int64_t width, const Rows& by) {
  for (int64_t i = 0; i < n; ++i) {
    float* __restrict cell = x.row(i);
    const float* __restrict factor = by.row(i);
    for (int64_t j = 0; j < whole_panels(width); ++j) cell[j] *= factor[j];
  }
}

// The gradient of a bias of n numbers.
inline void add_rows(const Rows& x, int64_t rows, int64_t n, bool add, float* __restrict out) {
  const int64_t whole = whole_panels(n);
  if (!add) {
    for (int64_t j = 0; j < whole; ++j) out[j] = 0.0f;
  }
  for (int64_t i = 0; i < rows; ++i) {
    const float* __restrict row = x.row(i);
    for (int64_t j = 0; j < whole; ++j) out[j] += row[j];
  }
}

// The gradients of gain and shift, given that with respect to unit * gain + shift.
inline void add_scaled_rows(const Rows& grad, const Rows& unit, int64_t rows, int64_t width, bool add,
                            float* __restrict gain, float* __restrict shift) {
  const int64_t whole = whole_panels(width);
  if (!add) {
    for (int64_t j = 0; j < whole; ++j) gain[j] = shift[j] = 0.0f;
  }
  for (int64_t i = 0; i < rows; ++i) {
    const float* __restrict g = grad.row(i);
    const float* __restrict u = unit.row(i);
    for (int64_t j = 0; j < width; ++j) {
      gain[j] += g[j] * u[j];
      shift[j] += g[j];
    }
  }
}

inline void zero_row(const Rows& x, int64_t i) {
  float* __restrict row = x.row(i);
  for (int64_t j = 0; j < x.stride; ++j) row[j] = 0.0f;
}

// Inputs of the network: scaled cells, flags of noisy columns, flags of clean columns.
void load(const MlpTrainArgs& args, int64_t first, int64_t n, int64_t rows, TrainTile& tile) {
  const BatchArgs& batch = args.perturb.batch;
  const Columns& columns = batch.columns;
  const int64_t C = columns.continuous, D = columns.width, J = C + columns.categorical;
  const float* x = static_cast<const float*>(args.perturb.out);
  const float* sigmas = static_cast<const float*>(args.perturb.sigma);
  int32_t* __restrict state = tile.state;
  for (int64_t i = 0; i < rows; ++i) {
    zero_row(tile.in, i);
    zero_row(tile.features, i);
    if (i >= n) continue;
    const uint8_t* __restrict states = batch.states + (first + i) * J;
    const float* __restrict cells = x + (first + i) * D;
    const float* __restrict level_features = args.level_features + (first + i) * args.features;
    float* __restrict in = tile.in.row(i);
    float* __restrict features = tile.features.row(i);
    const Scales scales = scales_at(sigmas[first + i]);
    spread(columns, states, state);
    for (int64_t d = 0; d < C; ++d) in[d] = shown_cell(state[d], cells[d], scales.number, kCleanNumber);
    for (int64_t d = C; d < D; ++d) in[d] = shown_cell(state[d], cells[d], scales.category, kCleanCategory);
    for (int64_t j = 0; j < J; ++j) {
      in[D + j] = states[j] == kNoisy ? 1.0f : 0.0f;
      in[D + J + j] = states[j] == kClean ? 1.0f : 0.0f;
    }
    for (int64_t e = 0; e < args.features; ++e) features[e] = level_features[e];
  }
}

// Forward pass of the rows from `first` on.
void forward(const MlpTrainArgs& args, const TrainWeights<const float>& weights, int64_t first, int64_t n, int64_t rows,
             TrainTile& tile) {
  const BatchArgs& batch = args.perturb.batch;
  const Columns& columns = batch.columns;
  const int64_t C = columns.continuous, D = columns.width, J = C + columns.categorical, W = args.width;
  load(args, first, n, rows, tile);
  multiply<Then::kWrite>(tile.features, args.features, weights.level, weights.level_bias, W, rows, tile.level);
  silu_rows(tile.level, rows, W, tile.level_slope);
  multiply<Then::kWrite>(tile.level, W, weights.out, weights.out_bias, W, rows, tile.embedded);
  multiply<Then::kWrite>(tile.in, D + 2 * J, weights.inputs, weights.start, W, rows, tile.h);
  for (int64_t b = 0; b < args.blocks; ++b) {
    const BlockWeights<const float> w = weights.block(b);
    const BlockRows saved = tile.block(b);
    for (int64_t i = 0; i < rows; ++i) {
      float* __restrict unit = saved.unit.row(i);
      float* __restrict to = saved.n.row(i);
      const float* __restrict level = tile.embedded.row(i);
      const float* __restrict gain = w.gain;
      const float* __restrict shift = w.shift;
      saved.scale[i] = normalise(tile.h.row(i), W, nullptr, nullptr, unit);
      for (int64_t j = 0; j < W; ++j) to[j] = unit[j] * gain[j] + shift[j] + level[j];
    }
    multiply<Then::kWrite>(saved.n, W, w.up, w.up_bias, 2 * W, rows, saved.wide);
    silu_rows(saved.wide, rows, 2 * W, saved.slope);
    multiply<Then::kAdd>(saved.wide, 2 * W, w.down, w.down_bias, W, rows, tile.h);
  }
  for (int64_t i = 0; i < rows; ++i) {
    float* __restrict unit = tile.unit.row(i);
    float* __restrict to = tile.last.row(i);
    tile.scale[i] = normalise(tile.h.row(i), W, nullptr, nullptr, unit);
    for (int64_t j = 0; j < W; ++j) to[j] = unit[j] * weights.gain[j] + weights.shift[j];
  }
  multiply<Then::kWrite>(tile.last, W, weights.outputs, weights.bias, D + C, rows, tile.out);
  const float* x = static_cast<const float*>(args.perturb.out);
  for (int64_t i = 0; i < n; ++i) {
    const Scales scales = scales_at(static_cast<const float*>(args.perturb.sigma)[first + i]);
    const uint8_t* __restrict states = batch.states + (first + i) * J;
    const float* __restrict cells = x + (first + i) * D;
    const float* __restrict out = tile.out.row(i);
    float* __restrict to = args.prediction + (first + i) * (D + C);
    for (int64_t c = 0; c < C; ++c) to[c] = predicted_score(states[c] == kNoisy, cells[c], out[c], scales);
    for (int64_t d = C; d < D + C; ++d) to[d] = out[d];
  }
}

// Backward pass: gradients of all weights, given the gradient of the prediction.
void backward(const MlpTrainArgs& args, const TrainWeights<const float>& weights, const Transposes& transposes,
              int64_t first, int64_t n, int64_t rows, bool add, TrainTile& tile, const TrainWeights<float>& grads) {
  const BatchArgs& batch = args.perturb.batch;
  const Columns& columns = batch.columns;
  const int64_t C = columns.continuous, D = columns.width, J = C + columns.categorical, W = args.width;
  const float* from = static_cast<const float*>(args.loss.grad);
  for (int64_t i = 0; i < rows; ++i) {
    zero_row(tile.out, i);
    zero_row(tile.h, i);  // from here on the gradient of h
    zero_row(tile.grad_level, i);
    if (i >= n) continue;
    const float gain = scales_at(static_cast<const float*>(args.perturb.sigma)[first + i]).gain;
    const uint8_t* __restrict states = batch.states + (first + i) * J;
    const float* __restrict grad = from + (first + i) * (D + C);
    float* __restrict out = tile.out.row(i);
    for (int64_t c = 0; c < C; ++c) out[c] = states[c] == kNoisy ? gain * grad[c] : grad[c];
    for (int64_t d = C; d < D + C; ++d) out[d] = grad[d];
  }
  accumulate(tile.last, W, tile.out, D + C, n, add, grads.outputs);
  add_rows(tile.out, n, D + C, add, grads.bias);
  multiply<Then::kWrite>(tile.out, D + C, transposes.outputs, nullptr, W, rows, tile.grad);
  add_scaled_rows(tile.grad, tile.unit, n, W, add, grads.gain, grads.shift);
  for (int64_t i = 0; i < n; ++i) {
    normalise_back(tile.grad.row(i), tile.unit.row(i), tile.scale[i], W, weights.gain, tile.h.row(i));
  }
  for (int64_t b = args.blocks; b-- > 0;) {
    const BlockWeights<const float> w = weights.block(b);
    const BlockWeights<float> g = grads.block(b);
    const BlockRows saved = tile.block(b);
    accumulate(saved.wide, 2 * W, tile.h, W, n, add, g.down);
    add_rows(tile.h, n, W, add, g.down_bias);
    multiply<Then::kWrite>(tile.h, W, transposes.down(b), nullptr, 2 * W, rows, tile.wide);
    multiply_cells(tile.wide, n, 2 * W, saved.slope);
    accumulate(saved.n, W, tile.wide, 2 * W, n, add, g.up);
    add_rows(tile.wide, n, 2 * W, add, g.up_bias);
    multiply<Then::kWrite>(tile.wide, 2 * W, transposes.up(b), nullptr, W, rows, tile.grad);
    add_scaled_rows(tile.grad, saved.unit, n, W, add, g.gain, g.shift);
    for (int64_t i = 0; i < n; ++i) {
      const float* __restrict grad = tile.grad.row(i);
      float* __restrict level = tile.grad_level.row(i);
      for (int64_t j = 0; j < W; ++j) level[j] += grad[j];
      normalise_back(grad, saved.unit.row(i), saved.scale[i], W, w.gain, tile.h.row(i));
    }
  }
  accumulate(tile.in, D + 2 * J, tile.h, W, n, add, grads.inputs);
  add_rows(tile.h, n, W, add, grads.start);
  accumulate(tile.level, W, tile.grad_level, W, n, add, grads.out);
  add_rows(tile.grad_level, n, W, add, grads.out_bias);
  multiply<Then::kWrite>(tile.grad_level, W, transposes.out, nullptr, W, rows, tile.grad);
  multiply_cells(tile.grad, n, W, tile.level_slope);
  accumulate(tile.features, args.features, tile.grad, W, n, add, grads.level);
  add_rows(tile.grad, n, W, add, grads.level_bias);
}

struct GradientMemory {
  char* inner;  // of the kernels for the input and the loss
  TrainTile tile;

  GradientMemory(const MlpTrainArgs& args, Scratch& scratch)
      : inner(scratch.take<char>(inner_bytes(args))), tile(args, scratch) {}

 private:
  static int64_t inner_bytes(const MlpTrainArgs& args) {
    const size_t input = MISSDIFF_ISA::perturb_bytes(args.perturb), loss = MISSDIFF_ISA::loss_bytes(args.loss);
    return static_cast<int64_t>(input < loss ? loss : input);
  }
};

}  // namespace

namespace MISSDIFF_ISA {

size_t mlp_transpose_bytes(const MlpTrainArgs&) { return 0; }
size_t mlp_gradients_bytes(const MlpTrainArgs& args) { return bytes_of<GradientMemory>(args); }

// Items: the matrix of the output layer, of the level's second layer, and two of each block.
int mlp_transpose(const MlpTrainArgs& args, int64_t begin, int64_t end, char*) {
  const Columns& columns = args.perturb.batch.columns;
  const TrainWeights<const float> weights(args, args.weights);
  const Transposes to = transposes_of(args);
  const int64_t W = args.width;
  for (int64_t item = begin; item < end; ++item) {
    const int64_t b = (item - 2) / 2;
    if (item == 0) {
      transpose(weights.outputs, W, columns.width + columns.continuous, to.outputs);
    } else if (item == 1) {
      transpose(weights.out, W, W, to.out);
    } else if (item % 2 == 0) {
      transpose(weights.block(b).up, W, 2 * W, to.up(b));
    } else {
      transpose(weights.block(b).down, 2 * W, W, to.down(b));
    }
  }
  return 0;
}

// Items: buffers.
int mlp_gradients(const MlpTrainArgs& args, int64_t begin, int64_t end, char* memory) {
  const BatchArgs& batch = args.perturb.batch;
  Scratch scratch(memory);
  GradientMemory pieces(args, scratch);
  char* inner = pieces.inner;
  TrainTile& tile = pieces.tile;
  const TrainWeights<const float> weights(args, args.weights);
  const Transposes transposes = transposes_of(args);
  const int64_t tiles = (batch.num_rows + kTrainRows - 1) / kTrainRows;
  for (int64_t buffer = begin; buffer < end; ++buffer) {
    const TrainWeights<float> grads(args, args.gradients + buffer * args.num_weights);
    const int64_t first_tile = buffer * tiles / args.buffers, last_tile = (buffer + 1) * tiles / args.buffers;
    for (int64_t t = first_tile; t < last_tile; ++t) {
      const int64_t first = t * kTrainRows;
      const int64_t n = batch.num_rows - first < kTrainRows ? batch.num_rows - first : kTrainRows;
      const int64_t rows = (n + kBlock - 1) / kBlock * kBlock;
      if (perturb(args.perturb, first, first + n, inner) != 0) return 1;
      forward(args, weights, first, n, rows, tile);
      if (loss(args.loss, first / kLossBlock, (first + n + kLossBlock - 1) / kLossBlock, inner) != 0) return 1;
      backward(args, weights, transposes, first, n, rows, t > first_tile, tile, grads);
    }
  }
  return 0;
}

}  // namespace MISSDIFF_ISA
}  // namespace missdiff::cpu
