// What the network of a training step reads, and what its output comes to: the input of noisy rows, and the loss and
// gradient of the prediction that is made of the output; see missdiff_fast.ops.reference.mlp_ends.
#pragma once

#include "layers.h"
#include "loss.h"

namespace missdiff::cuda {

constexpr int kEndRows = 4;  // of a block: few, so that a batch of 256 rows occupies half a large card

// Network input of rows at noise levels. One thread computes four columns of a row, one Philox block.
struct MlpInput {
  struct Args {
    Batch<float> batch;
    const float* sigma;  // [B]
    const int64_t* key;  // [2]
    Divider quads, columns;
    float* out;  // [B, D + 2 J]

    Args(const Batch<float>& batch_, const float* sigma_, const int64_t* key_, float* out_)
        : batch(batch_),
          sigma(sigma_),
          key(key_),
          quads(batch_.columns.width > 0 ? (batch_.columns.width + 3) / 4 : 1),
          columns(num_columns(batch_.columns) > 0 ? num_columns(batch_.columns) : 1),
          out(out_) {}
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 2;

  MISSDIFF_INLINE int num_columns(const Columns& columns) { return columns.continuous + columns.categorical; }
  static int64_t num_blocks(int64_t num_rows) { return (num_rows + kEndRows - 1) / kEndRows; }
  static int64_t shared_bytes(const Args& args) { return map_bytes(args.batch.columns); }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const Columns& columns = args.batch.columns;
    int32_t* map = reinterpret_cast<int32_t*>(shared);
    if constexpr (kPhase == 0) {
      map_columns(columns, place.thread, kThreads, map);
      return;
    }
    const int64_t first = place.block * kEndRows, left = args.batch.num_rows - first;
    const int n = static_cast<int>(left < kEndRows ? left : kEndRows), D = columns.width, J = num_columns(columns);
    const int quads = (D + 3) / 4;
    const NoiseKey key = read_noise_key(args.key);
    for (int item = place.thread; item < n * quads; item += kThreads) {
      const int i = quotient(item, args.quads);
      float* row = args.out + (first + i) * (D + 2 * J);
      show_quad(args.batch, args.sigma[first + i], key, map, first + i, item - i * quads, row);
    }
    for (int item = place.thread; item < n * J; item += kThreads) {
      const int i = quotient(item, args.columns), j = item - i * J;
      const int state = args.batch.states[(first + i) * J + j];
      float* flags = args.out + (first + i) * (D + 2 * J) + D;
      flags[j] = state == kNoisy ? 1.0f : 0.0f;
      flags[J + j] = state == kClean ? 1.0f : 0.0f;
    }
  }

  // Writes the input of four cells of a row.
  MISSDIFF_INLINE void show_quad(const Batch<float>& batch, float sigma, const NoiseKey& key, const int32_t* map,
                                 int64_t i, int block, float* row) {
    const Columns& columns = batch.columns;
    const int C = columns.continuous, K = columns.categorical;
    const int64_t stored = stored_row(batch, i);
    const Scales scales = scales_at(sigma);
    Spot spots[4];
    spots_of<false>(columns, map, 4 * block, spots);
    int state[4];
    bool noisy = false;
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      state[j] = 4 * block + j < columns.width ? batch.states[i * (C + K) + spots[j].column] : kHidden;
      noisy |= state[j] == kNoisy;
    }
    float eps[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (noisy) normal_quad(key, stored, block, eps);
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const int d = 4 * block + j;
      if (d >= columns.width) continue;
      if (d < C) {
        const float cell = batch.continuous[stored * C + d], x0 = cell == cell ? cell : 0.0f;
        row[d] = shown_cell(state[j], perturb_cell(state[j], x0, 1.0f, sigma, eps[j]), scales.number, kCleanNumber);
      } else {
        const int code = batch.codes[stored * K + spots[j].column - C];
        require(spots[j].size == 0 || code < spots[j].size);
        const float x0 = code == spots[j].place ? 1.0f : 0.0f;
        row[d] = shown_cell(state[j], perturb_cell(state[j], x0, 1.0f, sigma, eps[j]), scales.category, kCleanCategory);
      }
    }
  }
};

// Loss of the prediction that the network's output gives; the output becomes the gradient with respect to it. The tile
// is that of `Loss` with few rows.
template <bool kStaged>
struct MlpLoss {
  using Plain = Loss<float, float, false>;  // which reads codes from the table, also here where rows are staged
  struct Args {
    Plain::Args loss;       // whose prediction and grad are not read
    const uint8_t* states;  // [B, J] as the network saw them; those of `loss` are the loss's
    const float* sigma;     // [B]
    const float* bias;      // [D + C]
    const float* input;     // [B, D + 2 J]
    Rows<float> out;        // [B, D + C]
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 4;

  static Tile tile_of(const Columns& columns) {
    const int64_t bytes = kLeastRows * static_cast<int64_t>(sizeof(float)) * Plain::stage_of(columns).stride;
    return {kLeastRows, bytes <= kMostBytes};
  }
  static int64_t shared_bytes(const Args& args) {
    return kSumBytes + (kStaged ? stage_bytes<float>(args.loss.stage, args.loss.tile.rows) : 0);
  }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const Plain::Args& loss = args.loss;
    const int64_t first = place.block * loss.tile.rows;
    const int n = rows_of_tile(loss.tile, loss.batch.num_rows, first), width = loss.stage.width, thread = place.thread;
    double* sums = reinterpret_cast<double*>(shared);
    float* tile = kStaged ? reinterpret_cast<float*>(shared + kSumBytes) : args.out[first];
    const int64_t stride = kStaged ? loss.stage.stride : args.out.stride;
    if constexpr (kPhase == 0) {
      check_columns(loss.batch.columns, thread, kThreads);
      for (int item = thread; item < n * width; item += kThreads) {
        const int i = quotient(item, loss.stage.by), d = item - i * width;
        tile[i * stride + d] = prediction(args, first + i, d);
      }
    } else if constexpr (kPhase == 1) {
      sums[thread] = Plain::some_losses(loss, first, n, thread, nullptr, tile, tile, stride);
    } else if constexpr (kPhase == 2) {
      add_some(sums, thread);
      for (int item = thread; item < n * width; item += kThreads) {
        const int i = quotient(item, loss.stage.by), d = item - i * width;
        const float gradient = tile[i * stride + d];
        args.out[first + i][d] =
            is_score(args, first + i, d) ? gradient * scales_at(args.sigma[first + i]).gain : gradient;
      }
    } else if (thread == 0) {
      loss.partials[place.block] = add_rest(sums);
    }
  }

  // Whether the network's output is scaled, and the noisy score added: only at noisy scores.
  MISSDIFF_INLINE bool is_score(const Args& args, int64_t i, int d) {
    const Columns& columns = args.loss.batch.columns;
    return d < columns.continuous && args.states[i * (columns.continuous + columns.categorical) + d] == kNoisy;
  }

  MISSDIFF_INLINE float prediction(const Args& args, int64_t i, int d) {
    const Columns& columns = args.loss.batch.columns;
    const float out = args.out[i][d] + args.bias[d];
    if (!is_score(args, i, d)) return out;
    // The network's input of a noisy score is the score times its factor in the prediction.
    const int inputs = columns.width + 2 * (columns.continuous + columns.categorical);
    return args.input[i * inputs + d] + scales_at(args.sigma[i]).gain * out;
  }
};

}  // namespace missdiff::cuda
