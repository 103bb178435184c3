// A tile of 16 rows in a training step of the default network: forward, loss and backward pass by one block, whose
// threads keep the rows' activations in memory of the block and write the weights' gradients to global memory.
#pragma once

#include "mlp.h"
#include "mlp_ends.h"
#include "tf32.h"

namespace missdiff::cuda {

constexpr int kTrainTileRows = 16;
constexpr int kTrainWarps = kThreads / kLanes;

// A large function: inlined on a device, where the arrays of its arguments are registers; on the host that would only
// take long to compile.
#ifdef __CUDACC__
#define MISSDIFF_LARGE MISSDIFF_INLINE
#else
#define MISSDIFF_LARGE static
#endif

// A network's layer among the flat weights, which are row-major: [outputs, inputs], then the bias.
struct Layer {
  int64_t weight, bias;
  int inputs, outputs;
};

using TrainLoss = Loss<float, float, false>;

struct TrainArgs {
  TrainLoss::Args loss;             // of the rows of all steps [S, B], with the states that the loss is taken with
  const uint8_t* states = nullptr;  // [S, B, J] that the network is shown
  const float* sigma = nullptr;     // [S, B]
  const float* level_features = nullptr;    // [S, B, E]
  const int64_t* keys = nullptr;            // [S, 2]
  const double* schedule = nullptr;         // [S, 3] learning rate, number of the step from 1, decay of ema
  int64_t steps = 0, num_rows = 0;          // S, B
  int width = 0, blocks = 0, features = 0;  // W, residual blocks, E
  // [P], each tensor padded to a multiple of 16 numbers
  float *weights = nullptr, *exp_avg = nullptr, *exp_avg_sq = nullptr, *ema = nullptr;
  int64_t size = 0;                           // P
  float* losses = nullptr;                    // [S]
  int row_blocks = 0;                         // blocks of the grid that take rows
  float* gradients = nullptr;                 // [row_blocks, P], at first zeros
  double *sums = nullptr, *counts = nullptr;  // [row_blocks] losses, observed cells
  unsigned long long* arrived = nullptr;      // blocks at the barriers so far, at first 0
  char* scratch = nullptr;                    // tiles of the row blocks if shared memory has no room
  Divider quads;                              // of an encoded row

  explicit TrainArgs(const TrainLoss::Args& loss_) : loss(loss_), quads(quads_of(loss_.batch.columns.width)) {}
  static int64_t quads_of(int width) { return width > 0 ? (width + 3) / 4 : 1; }
  MISSDIFF_MEMBER const Columns& columns() const { return loss.batch.columns; }
};

// The pieces of the flat weights, in the order of the parameters of `missdiff_fast.networks.Denoiser`.
struct TrainWeights {
  Layer inputs, level, embed, outputs;
  int64_t gain, shift;  // of the last normalisation
  int64_t first_block, block_floats, size;
  int width;

  MISSDIFF_MEMBER TrainWeights(const Columns& columns, int width_, int blocks, int features) : width(width_) {
    const int J = columns.continuous + columns.categorical;
    int64_t next = 0;
    inputs = layer(next, columns.width + 2 * J, width);
    level = layer(next, features, width);
    embed = layer(next, width, width);
    first_block = next;
    next += block(0).end - first_block;
    block_floats = next - first_block;
    next = first_block + blocks * block_floats;
    gain = take(next, width);
    shift = take(next, width);
    outputs = layer(next, width, columns.width + columns.continuous);
    size = next;
  }

  struct Block {
    int64_t gain, shift;
    Layer up, down;
    int64_t end;
  };
  MISSDIFF_MEMBER Block block(int b) const {
    Block result;
    int64_t next = first_block + (b > 0 ? b * block_floats : 0);
    result.gain = take(next, width);
    result.shift = take(next, width);
    result.up = layer(next, width, 2 * width);
    result.down = layer(next, 2 * width, width);
    result.end = next;
    return result;
  }

 private:
  MISSDIFF_INLINE int64_t take(int64_t& next, int64_t numbers) {
    const int64_t begin = next;
    next += (numbers + 15) / 16 * 16;
    return begin;
  }
  MISSDIFF_INLINE Layer layer(int64_t& next, int inputs, int outputs) {
    const int64_t weight = take(next, static_cast<int64_t>(inputs) * outputs);
    return {weight, take(next, outputs), inputs, outputs};
  }
};

// The memory of a tile. An odd multiple of 8 between rows spreads a product's reads over the banks.
class TrainTile {
 public:
  int32_t* map;                              // of the encoded columns
  Rows<float> in, features;                  // [16, D + 2 J], [16, E]
  Rows<float> level, level_slope, embedded;  // [16, W]: after SiLU, SiLU's derivative, the embedded noise level
  Rows<float> h, unit, last;     // [16, W]: residual rows (later their gradient), normalised, with gain and shift
  Rows<float> grad, grad_level;  // [16, W]
  Rows<float> out;               // [16, D + C]: the prediction, later its gradient
  float* scale;                  // [16] of the last normalisation

  // Of a residual block.
  struct Saved {
    Rows<float> unit, normal;  // [16, W]: normalised; with gain, shift and level
    Rows<float> wide, slope;   // [16, 2 W]: after SiLU; SiLU's derivative, later the hidden layer's gradient
    float* scale;              // [16] of the normalisation
  };

  MISSDIFF_MEMBER TrainTile(const TrainArgs& args, char* memory)
      : map(reinterpret_cast<int32_t*>(memory)),
        next_(reinterpret_cast<float*>(memory + map_bytes(args.columns()))),
        width_(args.width) {
    const Columns& columns = args.columns();
    const int J = columns.continuous + columns.categorical;
    in = take(columns.width + 2 * J);
    features = take(args.features);
    level = take(width_);
    level_slope = take(width_);
    embedded = take(width_);
    h = take(width_);
    unit = take(width_);
    last = take(width_);
    grad = take(width_);
    grad_level = take(width_);
    out = take(columns.width + columns.continuous);
    scale = take(1).first;
    blocks_ = next_;
  }

  MISSDIFF_MEMBER Saved block(int b) const {
    TrainTile own = *this;
    own.next_ = blocks_ + static_cast<int64_t>(b) * block_floats(width_);
    Saved saved;
    saved.unit = own.take(width_);
    saved.normal = own.take(width_);
    saved.wide = own.take(2 * width_);
    saved.slope = own.take(2 * width_);
    saved.scale = own.take(1).first;
    return saved;
  }

  MISSDIFF_INLINE int64_t bytes(const TrainArgs& args) {
    const TrainTile tile(args, nullptr);
    return reinterpret_cast<intptr_t>(tile.blocks_) + 4 * args.blocks * block_floats(args.width);
  }

 private:
  MISSDIFF_INLINE int64_t block_floats(int width) {
    return int64_t{kTrainTileRows} * (2 * cell_stride(width) + 2 * cell_stride(2 * width) + cell_stride(1));
  }
  MISSDIFF_MEMBER Rows<float> take(int width) {
    const Rows<float> matrix{next_, cell_stride(width)};
    next_ += kTrainTileRows * matrix.stride;
    return matrix;
  }

  float *next_, *blocks_;
  int width_;
};

// Adds up the numbers of 16 lanes of a warp, each half for itself, in a fixed order.
MISSDIFF_INLINE void sum_half_warps(PerLane<float>& numbers) {
  for (int apart = 8; apart > 0; apart /= 2) {
#ifdef __CUDA_ARCH__
    numbers.value += __shfl_xor_sync(0xFFFFFFFFu, numbers.value, apart);
#else
    const PerLane<float> before = numbers;
    for (int lane = 0; lane < kLanes; ++lane) numbers[lane] = before[lane] + before[lane ^ apart];
#endif
  }
}

template <class Product>
struct MlpTrainRows {
  // Takes the rows from `first` on through the network and back. Adds their gradients to those of the block's tiles
  // before, if `add`, and each thread's losses and observed cells to its sums.
  MISSDIFF_INLINE void run(const TrainArgs& args, int64_t step, int64_t first, bool add, const TrainTile& tile,
                           float* gradients, double* losses, double* counts) {
    const int64_t left = args.num_rows - first;
    const Pass pass{args,
                    tile,
                    TrainWeights(args.columns(), args.width, args.blocks, args.features),
                    step * args.num_rows + first,
                    step,
                    static_cast<int>(left < kTrainTileRows ? left : kTrainTileRows),
                    gradients,
                    add};
    block_barrier();  // the tile before is done
    load(pass);
    forward(pass);
    take_loss(pass, losses, counts);
    backward(pass);
  }

 private:
  // What all parts of a pass have in common.
  struct Pass {
    const TrainArgs& args;
    const TrainTile& tile;
    TrainWeights weights;
    int64_t first;  // of all steps' rows
    int64_t step;
    int n;  // rows
    float* gradients;
    bool add;

    MISSDIFF_MEMBER const float* at(int64_t piece) const { return args.weights + piece; }
    MISSDIFF_MEMBER float* gradient(int64_t piece) const { return gradients + piece; }
  };

  // Inputs of the network: scaled cells, flags of noisy columns, flags of clean columns; and the level's features.
  MISSDIFF_LARGE void load(const Pass& pass) {
    const TrainArgs& args = pass.args;
    const TrainTile& tile = pass.tile;
    const Columns& columns = args.columns();
    const int D = columns.width, J = columns.continuous + columns.categorical, E = args.features;
    Batch<float> shown = args.loss.batch;
    shown.states = args.states;
    MISSDIFF_THREADS(thread) {
      const int quads = static_cast<int>(args.quads.divisor);
      const NoiseKey key = read_noise_key(args.keys + 2 * pass.step);
      for (int item = thread; item < pass.n * quads; item += kThreads) {
        const int i = quotient(item, args.quads);
        const int64_t row = pass.first + i;
        MlpInput::show_quad(shown, args.sigma[row], key, tile.map, row, item - i * quads, tile.in[i]);
      }
      for (int item = thread; item < kTrainTileRows * 2 * J; item += kThreads) {
        const int i = item / (2 * J), f = item - i * 2 * J, wanted = f < J ? kNoisy : kClean;
        const bool set = i < pass.n && args.states[(pass.first + i) * J + (f < J ? f : f - J)] == wanted;
        tile.in[i][D + f] = set ? 1.0f : 0.0f;
      }
      for (int item = thread; item < kTrainTileRows * E; item += kThreads) {
        const int i = item / E, e = item - i * E;
        tile.features[i][e] = i < pass.n ? args.level_features[(pass.first + i) * E + e] : 0.0f;
      }
      for (int item = thread; item < (kTrainTileRows - pass.n) * D; item += kThreads) {
        const int i = pass.n + item / D;
        tile.in[i][item % D] = 0.0f;
      }
    }
    block_barrier();
  }

  MISSDIFF_LARGE void forward(const Pass& pass) {
    const TrainArgs& args = pass.args;
    const TrainTile& tile = pass.tile;
    const TrainWeights& weights = pass.weights;
    multiply_rows(pass, tile.features, weights.level, Silu{tile.level, tile.level_slope});
    multiply_rows(pass, tile.in, weights.inputs, Store{tile.h});
    block_barrier();
    multiply_rows(pass, tile.level, weights.embed, Store{tile.embedded});
    block_barrier();
    for (int b = 0; b < args.blocks; ++b) {
      const TrainWeights::Block w = weights.block(b);
      const TrainTile::Saved saved = tile.block(b);
      normalise(pass, saved.unit, saved.scale, w.gain, w.shift, &tile.embedded, saved.normal);
      block_barrier();
      multiply_rows(pass, saved.normal, w.up, Silu{saved.wide, saved.slope});
      block_barrier();
      multiply_rows(pass, saved.wide, w.down, Add{tile.h});
      block_barrier();
    }
    normalise(pass, tile.unit, tile.scale, weights.gain, weights.shift, nullptr, tile.last);
    block_barrier();
    multiply_rows(pass, tile.last, weights.outputs, Store{tile.out});
    block_barrier();
  }

  // The prediction's loss. Overwrites the network's output with the loss's gradient with respect to it.
  MISSDIFF_LARGE void take_loss(const Pass& pass, double* losses, double* counts) {
    const TrainArgs& args = pass.args;
    const Columns& columns = args.columns();
    const int C = columns.continuous, K = columns.categorical, outputs = columns.width + C;
    const Batch<float>& batch = args.loss.batch;
    MISSDIFF_THREADS(thread) {
      double loss = 0.0, count = 0.0;
      for (int item = thread; item < pass.n * C; item += kThreads) {
        const int i = quotient(item, args.loss.continuous), c = item - i * C;
        const int64_t row = pass.first + i;
        const Scales scales = scales_at(args.sigma[row]);
        const bool noisy = args.states[row * (C + K) + c] == kNoisy;
        float* out = pass.tile.out[i];
        // The network's input of a noisy score is the score times its factor in the prediction.
        if (noisy) out[c] = pass.tile.in[i][c] + scales.gain * out[c];
        loss += TrainLoss::continuous_loss(args.loss, 1.0, row, c, out, out);
        if (noisy) out[c] *= scales.gain;
        const float x = batch.continuous[stored_row(batch, row) * C + c];
        count += x == x ? 1.0 : 0.0;
      }
      for (int item = thread; item < pass.n * K; item += kThreads) {
        const int i = quotient(item, args.loss.categorical), k = item - i * K;
        const int64_t row = pass.first + i;
        float* out = pass.tile.out[i];
        loss += TrainLoss::group_loss(args.loss, 1.0, TrainLoss::loss_code(args.loss, row, k), k, out, out);
        count += batch.codes[stored_row(batch, row) * K + k] >= 0 ? 1.0 : 0.0;
      }
      for (int item = thread; item < (kTrainTileRows - pass.n) * outputs; item += kThreads) {
        pass.tile.out[pass.n + item / outputs][item % outputs] = 0.0f;
      }
      losses[thread] += loss;
      counts[thread] += count;
    }
    block_barrier();
  }

  MISSDIFF_LARGE void backward(const Pass& pass) {
    const TrainArgs& args = pass.args;
    const TrainTile& tile = pass.tile;
    const TrainWeights& weights = pass.weights;
    const Rows<float> grad_h = tile.h;  // the rows themselves are not needed any more
    MISSDIFF_THREADS(thread) {
      for (int item = thread; item < kTrainTileRows * tile.h.stride; item += kThreads) {
        grad_h.first[item] = 0.0f;
        tile.grad_level.first[item] = 0.0f;
      }
    }
    add_layer(pass, weights.outputs, tile.last, tile.out);
    multiply_back(pass, tile.out, weights.outputs, Store{tile.grad});
    block_barrier();
    normalise_back(pass, tile.unit, tile.scale, weights.gain, weights.shift, nullptr);
    block_barrier();
    for (int b = args.blocks - 1; b >= 0; --b) {
      const TrainWeights::Block w = weights.block(b);
      const TrainTile::Saved saved = tile.block(b);
      add_layer(pass, w.down, saved.wide, grad_h);
      multiply_back(pass, grad_h, w.down, Multiply{saved.slope});
      block_barrier();
      add_layer(pass, w.up, saved.normal, saved.slope);
      multiply_back(pass, saved.slope, w.up, Store{tile.grad});
      block_barrier();
      normalise_back(pass, saved.unit, saved.scale, w.gain, w.shift, &tile.grad_level);
      block_barrier();
    }
    add_layer(pass, weights.inputs, tile.in, grad_h);
    add_layer(pass, weights.embed, tile.level, tile.grad_level);
    multiply_back(pass, tile.grad_level, weights.embed, Multiply{tile.level_slope});
    block_barrier();
    add_layer(pass, weights.level, tile.features, tile.level_slope);
  }

  // Where a product's numbers go.
  struct Store {
    Rows<float> to;
    MISSDIFF_MEMBER void operator()(int i, int j, float x) const { to[i][j] = x; }
  };
  struct Add {
    Rows<float> to;
    MISSDIFF_MEMBER void operator()(int i, int j, float x) const { to[i][j] += x; }
  };
  struct Multiply {
    Rows<float> to;
    MISSDIFF_MEMBER void operator()(int i, int j, float x) const { to[i][j] *= x; }
  };
  struct Silu {
    Rows<float> to, slope;
    MISSDIFF_MEMBER void operator()(int i, int j, float x) const {
      const float e = quick_exp(-x), share = 1.0f / (1.0f + e);
      to[i][j] = x * share;
      slope[i][j] = share * (1.0f + x * (1.0f - share));
    }
  };

  // Numbers from `at` on of a vector of `size`; 0 beyond its end.
  MISSDIFF_INLINE Four load_four(const float* vector, int at, int size, bool aligned) {
    if (aligned && at + 4 <= size) return load_as<Four>(vector + at);
    Four four{};
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      if (at + j < size) four.v[j] = vector[at + j];
    }
    return four;
  }
  MISSDIFF_INLINE Two load_two(const float* vector, int at, int size, bool aligned) {
    if (aligned && at + 2 <= size) return load_as<Two>(vector + at);
    return {at < size ? vector[at] : 0.0f, at + 1 < size ? vector[at + 1] : 0.0f};
  }

  // The left factor of 16 inputs of all rows, by eight: lane 4 g + t has inputs 4 t to 4 t + 3.
  MISSDIFF_INLINE void load_left(const Rows<float>& rows, int at, int size, int lane, PerLane<LeftEight> (&left)[2]) {
    const Four upper = load_four(rows[lane / 4], at + 4 * (lane % 4), size, true);
    const Four lower = load_four(rows[lane / 4 + 8], at + 4 * (lane % 4), size, true);
    MISSDIFF_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      left[half][lane] = {upper.v[2 * half], lower.v[2 * half], upper.v[2 * half + 1], lower.v[2 * half + 1]};
    }
  }

  // The product of rows [16, inputs] and a layer's weights, plus its bias; a warp takes eight outputs at a time.
  template <class To>
  MISSDIFF_LARGE void multiply_rows(const Pass& pass, const Rows<float>& rows, const Layer& layer, const To& to) {
    const float* weight = pass.at(layer.weight);
    const bool aligned = layer.inputs % 4 == 0;
    MISSDIFF_WARPS(warp, kTrainWarps) {
      for (int first = 8 * warp; first < layer.outputs; first += 8 * kTrainWarps) {
        PerLane<SumsEight> sums;
        MISSDIFF_LANES(lane) sums[lane] = {};
        for (int k = 0; k < layer.inputs; k += 16) {
          PerLane<LeftEight> left[2];
          PerLane<RightEight> right[2];
          MISSDIFF_LANES(lane) {
            const int output = first + lane / 4;
            Four own{};
            if (output < layer.outputs) {
              own = load_four(weight + static_cast<int64_t>(output) * layer.inputs, k + 4 * (lane % 4), layer.inputs,
                              aligned);
            }
            load_left(rows, k, layer.inputs, lane, left);
            MISSDIFF_UNROLL(2)
            for (int half = 0; half < 2; ++half) right[half][lane] = {own.v[2 * half], own.v[2 * half + 1]};
          }
          MISSDIFF_UNROLL(2)
          for (int half = 0; half < 2; ++half) Product::multiply(sums, left[half], right[half]);
        }
        MISSDIFF_LANES(lane) {
          MISSDIFF_UNROLL(4)
          for (int i = 0; i < 4; ++i) {
            const int output = first + sum_output(lane, i);
            if (output < layer.outputs) to(sum_row(lane, i), output, sums[lane].v[i] + pass.at(layer.bias)[output]);
          }
        }
      }
    }
  }

  // The product of rows [16, outputs] and a layer's weights, back to its inputs; a warp takes 16 inputs at a time. A
  // lane has inputs 2 g and 2 g + 1 of these, one for each of two products.
  template <class To>
  MISSDIFF_LARGE void multiply_back(const Pass& pass, const Rows<float>& rows, const Layer& layer, const To& to) {
    const float* weight = pass.at(layer.weight);
    const bool aligned = layer.inputs % 2 == 0;
    MISSDIFF_WARPS(warp, kTrainWarps) {
      for (int first = 16 * warp; first < layer.inputs; first += 16 * kTrainWarps) {
        PerLane<SumsEight> sums[2];
        MISSDIFF_LANES(lane) sums[0][lane] = sums[1][lane] = {};
        for (int k = 0; k < layer.outputs; k += 16) {
          PerLane<LeftEight> left[2];
          PerLane<RightEight> right[2][2];
          MISSDIFF_LANES(lane) {
            Two own[4];
            MISSDIFF_UNROLL(4)
            for (int j = 0; j < 4; ++j) {
              const int output = k + 4 * (lane % 4) + j;
              own[j] = {0.0f, 0.0f};
              if (output < layer.outputs) {
                own[j] = load_two(weight + static_cast<int64_t>(output) * layer.inputs, first + 2 * (lane / 4),
                                  layer.inputs, aligned);
              }
            }
            load_left(rows, k, layer.outputs, lane, left);
            MISSDIFF_UNROLL(2)
            for (int half = 0; half < 2; ++half) {
              right[half][0][lane] = {own[2 * half].first, own[2 * half + 1].first};
              right[half][1][lane] = {own[2 * half].second, own[2 * half + 1].second};
            }
          }
          MISSDIFF_UNROLL(2)
          for (int half = 0; half < 2; ++half) {
            MISSDIFF_UNROLL(2)
            for (int odd = 0; odd < 2; ++odd) Product::multiply(sums[odd], left[half], right[half][odd]);
          }
        }
        MISSDIFF_LANES(lane) {
          MISSDIFF_UNROLL(2)
          for (int odd = 0; odd < 2; ++odd) {
            MISSDIFF_UNROLL(4)
            for (int i = 0; i < 4; ++i) {
              const int input = first + 2 * sum_output(lane, i) + odd;
              if (input < layer.inputs) to(sum_row(lane, i), input, sums[odd][lane].v[i]);
            }
          }
        }
      }
    }
  }

  // The gradients of a layer's weights and bias, given its input rows and the gradient of its output rows. A warp takes
  // 16 outputs by 32 inputs at a time.
  MISSDIFF_LARGE void add_layer(const Pass& pass, const Layer& layer, const Rows<float>& rows,
                                const Rows<float>& grads) {
    constexpr int kAcross = 4;
    float* gradient = pass.gradient(layer.weight);
    const int down = (layer.outputs + 15) / 16, across = (layer.inputs + 8 * kAcross - 1) / (8 * kAcross);
    MISSDIFF_WARPS(warp, kTrainWarps) {
      for (int item = warp; item < down * across; item += kTrainWarps) {
        const int output = item / across * 16, input = item % across * 8 * kAcross;
        PerLane<SumsEight> sums[kAcross];
        MISSDIFF_UNROLL(4)
        for (int q = 0; q < kAcross; ++q) {
          MISSDIFF_LANES(lane) sums[q][lane] = {};
        }
        MISSDIFF_UNROLL(2)
        for (int half = 0; half < 2; ++half) {
          PerLane<LeftEight> left;
          MISSDIFF_LANES(lane) {
            const int g = lane / 4, t = lane % 4 + 8 * half;
            MISSDIFF_UNROLL(4)
            for (int i = 0; i < 4; ++i) {
              const int column = output + g + 8 * (i % 2);
              left[lane].v[i] = column < layer.outputs ? grads[t + 4 * (i / 2)][column] : 0.0f;
            }
          }
          MISSDIFF_UNROLL(4)
          for (int q = 0; q < kAcross; ++q) {
            PerLane<RightEight> right;
            MISSDIFF_LANES(lane) {
              const int column = input + 8 * q + lane / 4, t = lane % 4 + 8 * half;
              const bool there = column < layer.inputs;
              right[lane] = {there ? rows[t][column] : 0.0f, there ? rows[t + 4][column] : 0.0f};
            }
            Product::multiply(sums[q], left, right);
          }
        }
        MISSDIFF_UNROLL(4)
        for (int q = 0; q < kAcross; ++q) {
          MISSDIFF_LANES(lane) {
            MISSDIFF_UNROLL(4)
            for (int i = 0; i < 4; ++i) {
              const int own = output + sum_row(lane, i), column = input + 8 * q + sum_output(lane, i);
              if (own < layer.outputs && column < layer.inputs) {
                put(pass, gradient + static_cast<int64_t>(own) * layer.inputs + column, sums[q][lane].v[i]);
              }
            }
          }
        }
      }
    }
    MISSDIFF_THREADS(thread) {
      for (int j = thread; j < layer.outputs; j += kThreads) {
        float sum = 0.0f;
        for (int i = 0; i < kTrainTileRows; ++i) sum += grads[i][j];
        put(pass, pass.gradient(layer.bias) + j, sum);
      }
    }
  }

  MISSDIFF_INLINE void put(const Pass& pass, float* gradient, float x) { *gradient = pass.add ? *gradient + x : x; }

  // unit = (h - mean) / std of each row, and to = unit gain + shift, plus the embedded level. Half a warp takes a row.
  MISSDIFF_LARGE void normalise(const Pass& pass, const Rows<float>& unit, float* scale, int64_t gain, int64_t shift,
                                const Rows<float>* embedded, const Rows<float>& to) {
    const int width = pass.args.width;
    const Rows<float>& h = pass.tile.h;
    MISSDIFF_WARPS(warp, kTrainWarps) {
      PerLane<float> sums, squares;
      MISSDIFF_LANES(lane) {
        const float* row = h[2 * warp + lane / 16];
        sums[lane] = 0.0f;
        for (int j = lane % 16; j < width; j += 16) sums[lane] += row[j];
      }
      sum_half_warps(sums);
      MISSDIFF_LANES(lane) {
        const float* row = h[2 * warp + lane / 16];
        sums[lane] /= static_cast<float>(width);
        squares[lane] = 0.0f;
        for (int j = lane % 16; j < width; j += 16) {
          const float off = row[j] - sums[lane];
          squares[lane] = fused_multiply_add(off, off, squares[lane]);
        }
      }
      sum_half_warps(squares);
      MISSDIFF_LANES(lane) {
        const int i = 2 * warp + lane / 16;
        const float own = inverse_std(squares[lane], width);
        if (lane % 16 == 0) scale[i] = own;
        for (int j = lane % 16; j < width; j += 16) {
          const float x = (h[i][j] - sums[lane]) * own;
          const float added = pass.at(shift)[j] + (embedded != nullptr ? (*embedded)[i][j] : 0.0f);
          unit[i][j] = x;
          to[i][j] = fused_multiply_add(x, pass.at(gain)[j], added);
        }
      }
    }
  }

  // From `grad`, the gradient of a normalisation's result: adds the gradients of gain and shift, that of the rows
  // before, and that of the embedded level if there is one.
  MISSDIFF_LARGE void normalise_back(const Pass& pass, const Rows<float>& unit, const float* scale, int64_t gain,
                                     int64_t shift, const Rows<float>* grad_level) {
    const int width = pass.args.width;
    const Rows<float>&grad = pass.tile.grad, &grad_h = pass.tile.h;
    MISSDIFF_THREADS(thread) {
      for (int j = thread; j < width; j += kThreads) {
        float of_gain = 0.0f, of_shift = 0.0f;
        for (int i = 0; i < kTrainTileRows; ++i) {
          of_gain = fused_multiply_add(grad[i][j], unit[i][j], of_gain);
          of_shift += grad[i][j];
        }
        put(pass, pass.gradient(gain) + j, of_gain);
        put(pass, pass.gradient(shift) + j, of_shift);
      }
    }
    MISSDIFF_WARPS(warp, kTrainWarps) {
      PerLane<float> sums, products;
      MISSDIFF_LANES(lane) {
        const int i = 2 * warp + lane / 16;
        sums[lane] = products[lane] = 0.0f;
        for (int j = lane % 16; j < width; j += 16) {
          const float g = grad[i][j] * pass.at(gain)[j];
          sums[lane] += g;
          products[lane] = fused_multiply_add(g, unit[i][j], products[lane]);
        }
      }
      sum_half_warps(sums);
      sum_half_warps(products);
      MISSDIFF_LANES(lane) {
        const int i = 2 * warp + lane / 16;
        const float sum = sums[lane] / static_cast<float>(width), product = products[lane] / static_cast<float>(width);
        for (int j = lane % 16; j < width; j += 16) {
          const float g = grad[i][j];
          grad_h[i][j] += scale[i] * (g * pass.at(gain)[j] - sum - unit[i][j] * product);
          if (grad_level != nullptr) (*grad_level)[i][j] += g;
        }
      }
    }
  }
};

}  // namespace missdiff::cuda
