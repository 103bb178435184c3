// Cells to scores; scores to bin indices and groups to codes: see missdiff_fast.ops.reference.encode and decode.
#pragma once

#include <cmath>

#include "../../quantile.h"
#include "staged.h"

namespace missdiff::cuda {

// The standard normal's quantile of u in (0, 1), by the formulas that csrc/cpu/kernels/codec.cpp applies to many.
MISSDIFF_INLINE double normal_quantile(double u) {
  if (u > kTail && u <= 1.0 - kTail) return normal_quantile_middle(u);
  const double x = std::sqrt(-2.0 * std::log(u > 0.5 ? 1.0 - u : u)), log_x = std::log(x);
  const double quantile = x < 8.0 ? normal_quantile_tail(x, log_x) : normal_quantile_far(x, log_x);
  return u > 0.5 ? quantile : -quantile;
}

// The number of the ascending numbers that are at most x; all where x is NaN.
template <class T>
MISSDIFF_INLINE int32_t count_up_to(const T* numbers, int32_t count, T x) {
  int32_t below = 0;
  while (count > 0) {
    const int32_t half = count / 2;
    const bool above = numbers[below + half] > x;
    below = above ? below : below + half + 1;
    count = above ? half : count - half - 1;
  }
  return below;
}

// One thread computes the score of one cell.
template <class T>
struct Encode {
  struct Args {
    const T* cells;           // [N]
    const T* keys;            // [V]
    const double* ends;       // [V + 1]
    const float* boundaries;  // [V - 1]
    const double* share;      // [N] or null for the middles
    double least, most;       // of ranks
    int64_t num_cells;        // N
    int32_t num_keys;         // V
    float* scores;            // [N]
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 1;

  static int64_t num_blocks(int64_t num_cells) { return (num_cells + kThreads - 1) / kThreads; }
  static int64_t shared_bytes(const Args&) { return 0; }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char*) {
    const int64_t i = place.block * kThreads + place.thread;
    if (i < args.num_cells) args.scores[i] = score_of(args, args.cells[i], args.share != nullptr ? args.share[i] : 0.5);
  }

  MISSDIFF_INLINE float score_of(const Args& args, T cell, double share) {
    int32_t k = count_up_to(args.keys, args.num_keys, cell);
    const bool known = k > 0 && args.keys[k - 1] == cell;
    k -= known;
    const double start = args.ends[k], width = known ? args.ends[k + 1] - start : 0.0;
    double u = start + width * share;
    u = u < args.least ? args.least : u;
    u = u > args.most ? args.most : u;
    // Rounding to float32 must not carry a key over its boundary.
    float score = static_cast<float>(normal_quantile(u));
    if (known && k > 0 && score < args.boundaries[k - 1]) score = args.boundaries[k - 1];
    if (known && k < args.num_keys - 1 && score >= args.boundaries[k]) score = next_below(args.boundaries[k]);
    return score;
  }

  MISSDIFF_INLINE float next_below(float x) { return std::nextafter(x, -INFINITY); }
};

template <class T, bool kStaged>
struct Decode {
  struct Args {
    Columns columns;
    const T* x;              // [B, D]
    const T* boundaries;     // [M]
    int64_t num_boundaries;  // M
    const int64_t* starts;   // [C + 1]
    int64_t num_rows;        // B
    Tile tile;
    int32_t* bin_index;  // [B, C]
    int16_t* codes;      // [B, K]
    Stage stage;

    Args(const Columns& columns_, const T* x_, const T* boundaries_, int64_t num_boundaries_, const int64_t* starts_,
         int64_t num_rows_, Tile tile_, int32_t* bin_index_, int16_t* codes_)
        : columns(columns_),
          x(x_),
          boundaries(boundaries_),
          num_boundaries(num_boundaries_),
          starts(starts_),
          num_rows(num_rows_),
          tile(tile_),
          bin_index(bin_index_),
          codes(codes_),
          stage(columns_.width, true) {}
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 3;

  static Tile tile_of(const Columns& columns) {
    return make_tile(static_cast<int64_t>(sizeof(T)) * Stage(columns.width, true).stride + 4 * columns.continuous +
                     2 * columns.categorical);
  }

  MISSDIFF_INLINE int64_t index_bytes(const Args& args) {
    return (static_cast<int64_t>(sizeof(int32_t)) * args.tile.rows * args.columns.continuous + 15) / 16 * 16;
  }

  static int64_t shared_bytes(const Args& args) {
    const int64_t codes = static_cast<int64_t>(sizeof(int16_t)) * args.tile.rows * args.columns.categorical;
    return kStaged ? stage_bytes<T>(args.stage, args.tile.rows) + index_bytes(args) + codes : 0;
  }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const int C = args.columns.continuous, K = args.columns.categorical, thread = place.thread, rows = args.tile.rows;
    const int64_t first = place.block * rows, D = args.columns.width;
    const int n = rows_of_tile(args.tile, args.num_rows, first);
    const int64_t tile_bytes = stage_bytes<T>(args.stage, rows);
    T* tile = reinterpret_cast<T*>(shared);
    int32_t* bin_index = kStaged ? reinterpret_cast<int32_t*>(shared + tile_bytes) : args.bin_index + first * C;
    int16_t* codes =
        kStaged ? reinterpret_cast<int16_t*>(shared + tile_bytes + index_bytes(args)) : args.codes + first * K;
    if constexpr (kPhase == 0) {
      check_columns(args.columns, thread, kThreads);
      if constexpr (kStaged) load_rows(args.x + first * D, n, args.stage, tile, thread, kThreads);
    } else if constexpr (kPhase == 1) {
      // Columns differ in boundaries and categories: a warp works on one column of several rows.
      const int i = thread % rows;
      if (i >= n) return;
      const T* x = kStaged ? tile + static_cast<int64_t>(i) * args.stage.stride : args.x + (first + i) * D;
      for (int j = thread / rows; j < C + K; j += kThreads / rows) {
        if (j < C) {
          bin_index[static_cast<int64_t>(i) * C + j] = bin_of(args, j, x[j]);
        } else {
          const Group group = group_of(args.columns, j - C);
          codes[static_cast<int64_t>(i) * K + j - C] = static_cast<int16_t>(argmax_group(x + group.first, group.size));
        }
      }
    } else if constexpr (kStaged) {
      copy_tile(bin_index, args.bin_index + first * C, n * C, thread, kThreads);
      copy_tile(codes, args.codes + first * K, n * K, thread, kThreads);
    }
  }

  // The number of the column's boundaries that are at most x. NaN counts as above all.
  MISSDIFF_INLINE int32_t bin_of(const Args& args, int c, T x) {
    const int64_t begin = args.starts[c], end = args.starts[c + 1];
    require(0 <= begin && begin <= end && end <= args.num_boundaries && end - begin <= INT32_MAX);
    return count_up_to(args.boundaries + begin, static_cast<int32_t>(end - begin), x);
  }
};

}  // namespace missdiff::cuda
