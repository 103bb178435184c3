// One solver step; see missdiff_fast.ops.reference.step.
#pragma once

#include "random.h"
#include "staged.h"

namespace missdiff::cuda {

template <class T, class P, bool kStaged>
struct Step {
  struct Args {
    Columns columns;
    const T* x;           // [B, D]
    const P* prediction;  // [B, prediction_width]
    int64_t prediction_width;
    const T* previous;      // [B, D] or null
    const uint8_t* states;  // [B, J]
    const T* coefficients;  // [4]
    const int64_t* rows;    // [B]
    const int64_t* key;     // [2]
    bool softmax;
    int64_t num_rows;  // B
    Tile tile;
    T* next;  // [B, D]
    T* p;     // [B, D]
    Stage stage;
    Divider quads;

    Args(const Columns& columns_, const T* x_, const P* prediction_, int64_t prediction_width_, const T* previous_,
         const uint8_t* states_, const T* coefficients_, const int64_t* rows_, const int64_t* key_, bool softmax_,
         int64_t num_rows_, Tile tile_, T* next_, T* p_)
        : columns(columns_),
          x(x_),
          prediction(prediction_),
          prediction_width(prediction_width_),
          previous(previous_),
          states(states_),
          coefficients(coefficients_),
          rows(rows_),
          key(key_),
          softmax(softmax_),
          num_rows(num_rows_),
          tile(tile_),
          next(next_),
          p(p_),
          stage(columns_.width, true),
          quads((columns_.width + 3) / 4) {}
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 3;

  // The coefficients, and whether the step has the last two terms.
  struct Terms {
    StepCoefficients<T> coefficients;
    bool previous, noise;
  };

  MISSDIFF_INLINE Terms terms_of(const Args& args) {
    const T* c = args.coefficients;
    return {{c[0], c[1], c[2], c[3]}, args.previous != nullptr, c[3] != T(0)};
  }

  // Always reserves space for noise: its coefficient is known on the device only.
  static Tile tile_of(const Columns& columns) {
    const int64_t noise = static_cast<int64_t>(sizeof(float)) * columns.width;
    return make_tile(static_cast<int64_t>(sizeof(T)) * Stage(columns.width, true).stride + noise);
  }

  static int64_t shared_bytes(const Args& args) {
    const int64_t noise = static_cast<int64_t>(sizeof(float)) * args.tile.rows * args.columns.width;
    return map_bytes(args.columns) + (kStaged ? stage_bytes<T>(args.stage, args.tile.rows) + noise : 0);
  }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const Columns& columns = args.columns;
    const int thread = place.thread, rows = args.tile.rows;
    const int64_t first = place.block * rows, D = columns.width;
    const int n = rows_of_tile(args.tile, args.num_rows, first);
    int32_t* map = reinterpret_cast<int32_t*>(shared);
    T* p = args.p + first * D;
    T* tile = kStaged ? reinterpret_cast<T*>(shared + map_bytes(columns)) : p;
    const ptrdiff_t stride = kStaged ? args.stage.stride : D;
    float* noise = reinterpret_cast<float*>(shared + map_bytes(columns) + stage_bytes<T>(args.stage, rows));
    if constexpr (kPhase == 0) {
      map_columns(columns, thread, kThreads, map);
      const P* prediction = args.prediction + first * args.prediction_width;
      if (kStaged && args.prediction_width == D) {
        load_rows(prediction, n, args.stage, tile, thread, kThreads);
      } else {
        for (int e = thread; e < n * args.stage.width; e += kThreads) {
          const int i = quotient(e, args.stage.by), d = e - i * args.stage.width;
          tile[i * stride + d] = static_cast<T>(widen(prediction[i * args.prediction_width + d]));
        }
      }
    } else if constexpr (kPhase == 1) {
      // Groups differ in size: a warp works on one group of several rows.
      const int i = thread % rows;
      if (args.softmax && i < n) {
        for (int k = thread / rows; k < columns.categorical; k += kThreads / rows) {
          const Group group = group_of(columns, k);
          softmax_group(tile + i * stride + group.first, group.size);
        }
      }
      if (kStaged && terms_of(args).noise) write_noise(args, first, n, thread, noise);
    } else if constexpr (kStaged) {
      store_rows(tile, n, args.stage, p, thread, kThreads);
      write_next(args, terms_of(args), map, first, n, thread, tile, noise);
    } else {
      write_wide_next(args, terms_of(args), map, first, n, thread);
    }
  }

  MISSDIFF_INLINE void softmax_group(T* p, int size) {
    if (size == 2) {
      softmax_pair(p[1] - p[0], p[0], p[1]);
      return;
    }
    const T largest = largest_of<T>(p, size);
    T sum = T(0);
    for (int j = 0; j < size; ++j) {
      p[j] = exp_negative(p[j] - largest);
      sum += p[j];
    }
    const T inverse = T(1) / sum;
    for (int j = 0; j < size; ++j) p[j] *= inverse;
  }

  MISSDIFF_INLINE void write_noise(const Args& args, int64_t first, int n, int thread, float* noise) {
    const int quads = static_cast<int>(args.quads.divisor), D = args.columns.width;
    const NoiseKey key = read_noise_key(args.key);
    for (int item = thread; item < n * quads; item += kThreads) {
      const int i = quotient(item, args.quads), block = item - i * quads;
      float eps[4];
      normal_quad(key, args.rows[first + i], block, eps);
      MISSDIFF_UNROLL(4)
      for (int j = 0; j < 4; ++j) {
        if (4 * block + j < D) noise[i * D + 4 * block + j] = eps[j];
      }
    }
  }

  // Reads and writes by 16-byte vectors, which may reach from one row into the next.
  MISSDIFF_INLINE void write_next(const Args& args, const Terms& terms, const int32_t* map, int64_t first, int n,
                                  int thread, const T* tile, const float* noise) {
    constexpr int kEach = static_cast<int>(sizeof(Vector) / sizeof(T));
    const int width = args.stage.width, count = n * width, whole = count / kEach, gap = args.stage.stride - width;
    const T* x = args.x + first * width;
    const T* previous = args.previous + (terms.previous ? first * width : 0);
    T* next = args.next + first * width;
    for (int v = thread; v < whole; v += kThreads) {
      const Vector old = reinterpret_cast<const Vector*>(x)[v];
      const Vector before = terms.previous ? reinterpret_cast<const Vector*>(previous)[v] : Vector{};
      T from[kEach], last[kEach], to[kEach];
      __builtin_memcpy(from, &old, sizeof old);
      __builtin_memcpy(last, &before, sizeof before);
      int i = quotient(v * kEach, args.stage.by), d = v * kEach - i * width;
      MISSDIFF_UNROLL(4)
      for (int j = 0; j < kEach; ++j) {
        const int e = v * kEach + j;
        const float eps = terms.noise ? noise[e] : 0.0f;
        to[j] = next_cell(args, terms, map, first + i, d, from[j], tile[e + i * gap], last[j], eps);
        if (++d == width) {
          d = 0;
          ++i;
        }
      }
      Vector vector;
      __builtin_memcpy(&vector, to, sizeof vector);
      reinterpret_cast<Vector*>(next)[v] = vector;
    }
    for (int e = whole * kEach + thread; e < count; e += kThreads) {
      const int i = quotient(e, args.stage.by), d = e - i * width;
      const T last = terms.previous ? previous[e] : T(0);
      next[e] = next_cell(args, terms, map, first + i, d, x[e], tile[e + i * gap], last, terms.noise ? noise[e] : 0.0f);
    }
  }

  // For rows too wide for shared memory: reads p back from global memory.
  MISSDIFF_INLINE void write_wide_next(const Args& args, const Terms& terms, const int32_t* map, int64_t first, int n,
                                       int thread) {
    const int quads = static_cast<int>(args.quads.divisor), D = args.columns.width;
    const NoiseKey key = read_noise_key(args.key);
    for (int item = thread; item < n * quads; item += kThreads) {
      const int i = quotient(item, args.quads), block = item - i * quads;
      float eps[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      if (terms.noise) normal_quad(key, args.rows[first + i], block, eps);
      MISSDIFF_UNROLL(4)
      for (int j = 0; j < 4; ++j) {
        const int d = 4 * block + j;
        if (d >= D) continue;
        const int64_t e = (first + i) * D + d;
        const T last = terms.previous ? args.previous[e] : T(0);
        args.next[e] = next_cell(args, terms, map, first + i, d, args.x[e], args.p[e], last, eps[j]);
      }
    }
  }

  MISSDIFF_INLINE T next_cell(const Args& args, const Terms& terms, const int32_t* map, int64_t i, int d, T x, T p,
                              T previous, float eps) {
    // As `step_cell`, which see: the state is read last.
    const T after =
        step_noisy_cell(terms.coefficients, terms.previous, terms.noise, x, p, previous, static_cast<T>(eps));
    const int64_t J = static_cast<int64_t>(args.columns.continuous) + args.columns.categorical;
    return args.states[i * J + spot_of<kStaged>(args.columns, map, d).column] == kClean ? x : after;
  }
};

}  // namespace missdiff::cuda
