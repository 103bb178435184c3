// masked_loss and masked_noise_loss: value and gradient in one pass; see missdiff_fast.ops.reference. A first kernel
// counts the normaliser. The sum's order depends on shapes only: each thread sums its items, each block its threads,
// and a last kernel the blocks.
#pragma once

#include "perturb.h"
#include "staged.h"

namespace missdiff::cuda {

constexpr int64_t kSumBytes = kThreads * static_cast<int64_t>(sizeof(double));

// Adds the threads' `sums` of a block in two phases: add_some, then add_rest.
MISSDIFF_INLINE void add_some(double* sums, int thread) {
  if (thread >= 16) return;
  double sum = 0.0;
  for (int t = 0; t < kThreads / 16; ++t) sum += sums[thread * (kThreads / 16) + t];
  sums[thread * (kThreads / 16)] = sum;
}

MISSDIFF_INLINE double add_rest(const double* sums) {
  double sum = 0.0;
  for (int t = 0; t < kThreads; t += kThreads / 16) sum += sums[t];
  return sum;
}

// Integers may be added in any order.
MISSDIFF_INLINE void add_to(int64_t* total, int64_t n) {
#ifdef __CUDA_ARCH__
  atomicAdd(reinterpret_cast<unsigned long long*>(total), static_cast<unsigned long long>(n));
#else
  *total += n;
#endif
}

MISSDIFF_INLINE double scale_of(const int64_t* count) { return 1.0 / static_cast<double>(*count < 1 ? 1 : *count); }

template <class T>
MISSDIFF_INLINE int64_t stored_row(const Batch<T>& batch, int64_t i) {
  const int64_t stored = batch.rows[i];
  require(0 <= stored && stored < batch.stored);
  return stored;
}

// Counts observed cells, or encoded columns of observed noisy cells, and checks every code of the batch.
template <class T, bool kNoisyWidth>
struct Count {
  struct Args {
    Batch<T> batch;
    int64_t* count;  // to which the number is added
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 3;
  static constexpr int kRows = 64;  // of a block

  static int64_t num_blocks(int64_t num_rows) { return (num_rows + kRows - 1) / kRows; }
  static int64_t shared_bytes(const Args&) { return kThreads * static_cast<int64_t>(sizeof(int64_t)); }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    int64_t* counts = reinterpret_cast<int64_t*>(shared);
    const int thread = place.thread;
    if constexpr (kPhase == 0) {
      const int64_t first = place.block * kRows, left = args.batch.num_rows - first;
      const int n = static_cast<int>(left < kRows ? left : kRows);
      int64_t count = 0;
      for (int i = thread / 32; i < n; i += kThreads / 32) count += count_row(args.batch, first + i, thread % 32);
      counts[thread] = count;
    } else if constexpr (kPhase == 1) {
      if (thread >= 16) return;
      int64_t count = 0;
      for (int t = 0; t < kThreads / 16; ++t) count += counts[thread * (kThreads / 16) + t];
      counts[thread * (kThreads / 16)] = count;
    } else if (thread == 0) {
      int64_t count = 0;
      for (int t = 0; t < kThreads; t += kThreads / 16) count += counts[t];
      add_to(args.count, count);
    }
  }

  // One warp counts a row, whose cells are adjacent in memory.
  MISSDIFF_INLINE int64_t count_row(const Batch<T>& batch, int64_t i, int lane) {
    const int C = batch.columns.continuous, K = batch.columns.categorical;
    const int64_t stored = stored_row(batch, i);
    const T* cells = batch.continuous + stored * C;
    const int16_t* codes = batch.codes + stored * K;
    const uint8_t* states = batch.states + i * (C + K);
    int64_t count = 0;
    for (int c = lane; c < C; c += 32) {
      const T x = cells[c];
      count += x == x && (!kNoisyWidth || states[c] == kNoisy);
    }
    for (int k = lane; k < K; k += 32) {
      const int code = codes[k], size = group_of(batch.columns, k).size;
      require(code < size);
      const bool counted = code >= 0 && (!kNoisyWidth || states[C + k] == kNoisy);
      count += counted ? (kNoisyWidth ? size : 1) : 0;
    }
    return count;
  }
};

// One thread handles one table column of a row and overwrites the prediction with its gradient.
template <class T, class P, bool kStaged>
struct Loss {
  struct Args {
    Batch<T> batch;
    const P* prediction;     // [B, D + C]
    const T* weight;         // [B]
    const T* column_weight;  // [J] or null for ones
    T mean_weight;
    const int64_t* count;
    Tile tile;
    P* grad;           // [B, D + C]
    double* partials;  // [tiles]
    Stage stage;
    Divider continuous, categorical;

    Args(const Batch<T>& batch_, const P* prediction_, const T* weight_, const T* column_weight_, T mean_weight_,
         const int64_t* count_, Tile tile_, P* grad_, double* partials_)
        : batch(batch_),
          prediction(prediction_),
          weight(weight_),
          column_weight(column_weight_),
          mean_weight(mean_weight_),
          count(count_),
          tile(tile_),
          grad(grad_),
          partials(partials_),
          stage(stage_of(batch_.columns)),
          continuous(batch_.columns.continuous > 0 ? batch_.columns.continuous : 1),
          categorical(batch_.columns.categorical > 0 ? batch_.columns.categorical : 1) {}
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 4;

  static Stage stage_of(const Columns& columns) {
    return Stage(static_cast<int64_t>(columns.width) + columns.continuous, true);
  }
  static Tile tile_of(const Columns& columns) {
    return make_tile(static_cast<int64_t>(sizeof(T)) * stage_of(columns).stride + 3 * columns.categorical);
  }
  // Codes in shared memory: [categorical, rows], with an odd number of words between columns.
  MISSDIFF_INLINE int code_stride(const Args& args) { return args.tile.rows + 2; }

  static int64_t shared_bytes(const Args& args) {
    if (!kStaged) return kSumBytes;
    return kSumBytes + stage_bytes<T>(args.stage, args.tile.rows) +
           static_cast<int64_t>(sizeof(int16_t)) * code_stride(args) * args.batch.columns.categorical;
  }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const Batch<T>& batch = args.batch;
    const int K = batch.columns.categorical, thread = place.thread;
    const int64_t first = place.block * args.tile.rows, width = args.stage.width;
    const int n = rows_of_tile(args.tile, batch.num_rows, first);
    double* sums = reinterpret_cast<double*>(shared);
    T* tile = reinterpret_cast<T*>(shared + kSumBytes);
    int16_t* codes = reinterpret_cast<int16_t*>(shared + kSumBytes + stage_bytes<T>(args.stage, args.tile.rows));
    const P* prediction = args.prediction + first * width;
    P* grad = args.grad + first * width;
    if constexpr (kPhase == 0) {
      check_columns(batch.columns, thread, kThreads);
      if constexpr (!kStaged) return;
      load_rows(prediction, n, args.stage, tile, thread, kThreads);
      for (int item = thread; item < n * K; item += kThreads) {
        const int i = quotient(item, args.categorical), k = item - i * K;
        codes[k * code_stride(args) + i] = static_cast<int16_t>(loss_code(args, first + i, k));
      }
    } else if constexpr (kPhase == 1) {
      if constexpr (kStaged) {
        sums[thread] = some_losses(args, first, n, thread, codes, tile, tile, args.stage.stride);
      } else {
        sums[thread] = some_losses(args, first, n, thread, nullptr, prediction, grad, width);
      }
    } else if constexpr (kPhase == 2) {
      add_some(sums, thread);
      if constexpr (kStaged) store_rows(tile, n, args.stage, grad, thread, kThreads);
    } else if (thread == 0) {
      args.partials[place.block] = add_rest(sums);
    }
  }

  // The sum of a thread's losses.
  template <class In, class Out>
  MISSDIFF_INLINE double some_losses(const Args& args, int64_t first, int n, int thread, const int16_t* codes,
                                     const In* in, Out* out, int64_t stride) {
    const int C = args.batch.columns.continuous, K = args.batch.columns.categorical, rows = args.tile.rows;
    const double scale = scale_of(args.count);
    double sum = 0.0;
    for (int item = thread; item < n * C; item += kThreads) {
      const int i = quotient(item, args.continuous), c = item - i * C;
      sum += continuous_loss(args, scale, first + i, c, in + i * stride, out + i * stride);
    }
    // Groups differ in size: a warp works on one group of several rows.
    const int i = thread % rows;
    if (i >= n) return sum;
    for (int k = thread / rows; k < K; k += kThreads / rows) {
      const int code = kStaged ? codes[k * code_stride(args) + i] : loss_code(args, first + i, k);
      sum += group_loss(args, scale, code, k, in + i * stride, out + i * stride);
    }
    return sum;
  }

  MISSDIFF_INLINE T column_weight(const Args& args, int j) {
    return args.column_weight != nullptr ? args.column_weight[j] : T(1);
  }

  // A cell's category, or -1 if the cell does not enter.
  MISSDIFF_INLINE int loss_code(const Args& args, int64_t i, int k) {
    const Batch<T>& batch = args.batch;
    const int C = batch.columns.continuous, K = batch.columns.categorical;
    const int code = batch.codes[stored_row(batch, i) * K + k];
    const bool in_loss = batch.states[i * (C + K) + C + k] != kClean && column_weight(args, C + k) != T(0);
    return in_loss ? code : -1;
  }

  // `in` and `out` are rows, and may be the same.
  template <class In, class Out>
  MISSDIFF_INLINE double continuous_loss(const Args& args, double scale, int64_t i, int c, const In* in, Out* out) {
    const Batch<T>& batch = args.batch;
    const int C = batch.columns.continuous, K = batch.columns.categorical, D = batch.columns.width;
    const int64_t stored = stored_row(batch, i);
    const T x0 = batch.continuous[stored * C + c], value = batch.values[stored * C + c];
    const int state = batch.states[i * (C + K) + c];
    const T column = column_weight(args, c);
    T loss = T(0), grad = T(0), mean_grad = T(0);
    if (x0 == x0 && state != kClean && column != T(0)) {
      const T factor = static_cast<T>(2.0 * scale * static_cast<double>(column));
      const T w = state == kNoisy ? args.weight[i] : T(1);
      score_loss(static_cast<T>(widen(in[c])) - x0, static_cast<T>(widen(in[D + c])) - value, w, args.mean_weight,
                 factor, loss, grad, mean_grad);
    }
    narrow(grad, out[c]);
    narrow(mean_grad, out[D + c]);
    return static_cast<double>(column) * static_cast<double>(loss);
  }

  template <class In, class Out>
  MISSDIFF_INLINE double group_loss(const Args& args, double scale, int code, int k, const In* in, Out* out) {
    const Group group = group_of(args.batch.columns, k);
    in += group.first;
    out += group.first;
    if (code < 0) {
      for (int j = 0; j < group.size; ++j) narrow(T(0), out[j]);
      return 0.0;
    }
    require(code < group.size);
    const T column = column_weight(args, args.batch.columns.continuous + k);
    const T factor = static_cast<T>(scale * static_cast<double>(column));
    if (group.size == 2) {
      T loss, grad;
      const T difference = static_cast<T>(widen(in[1])) - static_cast<T>(widen(in[0]));
      pair_loss(difference, code == 1, factor, loss, grad);
      narrow(T(0) - grad, out[0]);
      narrow(grad, out[1]);
      return static_cast<double>(column) * static_cast<double>(loss);
    }
    const T largest = largest_of<T>(in, group.size), chosen = static_cast<T>(widen(in[code]));
    T sum = T(0);
    for (int j = 0; j < group.size; ++j) {
      const T e = exp_negative(static_cast<T>(widen(in[j])) - largest);
      sum += e;
      if constexpr (sizeof(Out) == sizeof(T)) narrow(e, out[j]);  // where rounding loses nothing
    }
    const T inverse = factor / sum;
    for (int j = 0; j < group.size; ++j) {
      T e;
      if constexpr (sizeof(Out) == sizeof(T)) {
        e = out[j];
      } else {
        e = exp_negative(static_cast<T>(widen(in[j])) - largest);
      }
      narrow(j == code ? e * inverse - factor : e * inverse, out[j]);
    }
    const double entropy = static_cast<double>(largest - chosen) + static_cast<double>(log_sum(sum));
    return static_cast<double>(column) * entropy;
  }
};

// One thread handles four columns of a row, one Philox block.
template <class T, class P, bool kStaged>
struct NoiseLoss {
  struct Args {
    Batch<T> batch;
    const P* prediction;  // [B, D]
    const int64_t* key;   // [2]
    const int64_t* count;
    Tile tile;
    P* grad;           // [B, D]
    double* partials;  // [tiles]
    Stage stage;
    Divider quads;

    Args(const Batch<T>& batch_, const P* prediction_, const int64_t* key_, const int64_t* count_, Tile tile_, P* grad_,
         double* partials_)
        : batch(batch_),
          prediction(prediction_),
          key(key_),
          count(count_),
          tile(tile_),
          grad(grad_),
          partials(partials_),
          stage(batch_.columns.width, false),
          quads(batch_.columns.width > 0 ? (batch_.columns.width + 3) / 4 : 1) {}
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 4;

  static Tile tile_of(const Columns& columns) { return make_tile(static_cast<int64_t>(sizeof(T)) * columns.width); }

  static int64_t shared_bytes(const Args& args) {
    const int64_t staged = kStaged ? stage_bytes<T>(args.stage, args.tile.rows) : 0;
    return kSumBytes + map_bytes(args.batch.columns) + staged;
  }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const Columns& columns = args.batch.columns;
    const int thread = place.thread;
    const int64_t first = place.block * args.tile.rows, D = columns.width;
    const int n = rows_of_tile(args.tile, args.batch.num_rows, first);
    double* sums = reinterpret_cast<double*>(shared);
    int32_t* map = reinterpret_cast<int32_t*>(shared + kSumBytes);
    T* tile = reinterpret_cast<T*>(shared + kSumBytes + map_bytes(columns));
    const P* prediction = args.prediction + first * D;
    P* grad = args.grad + first * D;
    if constexpr (kPhase == 0) {
      map_columns(columns, thread, kThreads, map);
      if constexpr (kStaged) load_rows(prediction, n, args.stage, tile, thread, kThreads);
    } else if constexpr (kPhase == 1) {
      if constexpr (kStaged) {
        sums[thread] = some_losses(args, first, n, thread, map, tile, tile);
      } else {
        sums[thread] = some_losses(args, first, n, thread, map, prediction, grad);
      }
    } else if constexpr (kPhase == 2) {
      add_some(sums, thread);
      if constexpr (kStaged) store_rows(tile, n, args.stage, grad, thread, kThreads);
    } else if (thread == 0) {
      args.partials[place.block] = add_rest(sums);
    }
  }

  template <class In, class Out>
  MISSDIFF_INLINE double some_losses(const Args& args, int64_t first, int n, int thread, const int32_t* map,
                                     const In* in, Out* out) {
    const int quads = static_cast<int>(args.quads.divisor);
    const ptrdiff_t D = args.batch.columns.width;
    const T twice = static_cast<T>(2.0 * scale_of(args.count));
    const NoiseKey key = read_noise_key(args.key);
    double sum = 0.0;
    for (int item = thread; item < n * quads; item += kThreads) {
      const int i = quotient(item, args.quads), block = item - i * quads;
      sum += quad_loss(args, key, map, twice, first + i, block, in + i * D + 4 * block, out + i * D + 4 * block);
    }
    return sum;
  }

  template <class In, class Out>
  MISSDIFF_INLINE double quad_loss(const Args& args, const NoiseKey& key, const int32_t* map, T twice, int64_t i,
                                   int block, const In* in, Out* out) {
    const Batch<T>& batch = args.batch;
    const Columns& columns = batch.columns;
    const int C = columns.continuous, K = columns.categorical, at = 4 * block;
    const int64_t stored = stored_row(batch, i);
    const uint8_t* states = batch.states + i * (C + K);
    const T* cells = batch.continuous + stored * C;
    const int16_t* codes = batch.codes + stored * K;
    Spot spots[4];
    spots_of<kStaged>(columns, map, at, spots);
    // All are read before the first is looked at, so that a thread waits for memory once.
    T x0[4];
    int32_t state[4], code[4];
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const int d = at + j;
      x0[j] = T(0);
      code[j] = 0;
      state[j] = kHidden;
      if (d < columns.width) state[j] = states[spots[j].column];
      if (d < C) x0[j] = cells[d];
      if (C <= d && d < columns.width) code[j] = codes[spots[j].column - C];
    }
    bool active[4], any = false;
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      active[j] = x0[j] == x0[j] && code[j] >= 0 && state[j] == kNoisy;
      any |= active[j];
    }
    float eps[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (any) normal_quad(key, stored, block, eps);
    double sum = 0.0;
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      if (at + j >= columns.width) continue;
      T loss, grad;
      noise_loss(active[j], static_cast<T>(widen(in[j])), static_cast<T>(eps[j]), twice, loss, grad);
      sum += static_cast<double>(loss);
      narrow(grad, out[j]);
    }
    return sum;
  }
};

// Adds the blocks' sums, in one block, and divides by the count.
template <class T>
struct Total {
  struct Args {
    const double* partials;
    int64_t num_partials;
    const int64_t* count;
    T* loss;
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 3;

  static int64_t shared_bytes(const Args&) { return kSumBytes; }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    double* sums = reinterpret_cast<double*>(shared);
    if constexpr (kPhase == 0) {
      double sum = 0.0;
      for (int64_t i = place.thread; i < args.num_partials; i += kThreads) sum += args.partials[i];
      sums[place.thread] = sum;
    } else if constexpr (kPhase == 1) {
      add_some(sums, place.thread);
    } else if (place.thread == 0) {
      *args.loss = static_cast<T>(add_rest(sums) * scale_of(args.count));
    }
  }
};

}  // namespace missdiff::cuda
