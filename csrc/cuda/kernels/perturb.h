// x_t of the rows of a batch; see missdiff_fast.ops.reference.perturb.
#pragma once

#include "random.h"

namespace missdiff::cuda {

// A table and a batch of its rows.
template <class T>
struct Batch {
  Columns columns;
  const T* continuous;    // [N, C]
  const int16_t* codes;   // [N, K]
  const T* values;        // [N, C] or null
  const int64_t* rows;    // [B] each in [0, N)
  const uint8_t* states;  // [B, J]
  int64_t num_rows;       // B
  int64_t stored;         // N
};

// One thread computes four columns of a row, one Philox block.
template <class T>
struct Perturb {
  struct Args {
    Batch<T> batch;
    const T* alpha;      // [B]
    const T* sigma;      // [B]
    const int64_t* key;  // [2]
    T low, high;
    Divider quads;
    Tile tile;
    T* out;  // [B, D]
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 3;

  static int64_t shared_bytes(const Args& args) {
    const Columns& columns = args.batch.columns;
    const int64_t staged = static_cast<int64_t>(sizeof(T)) * args.tile.rows * columns.width;
    return map_bytes(columns) + (args.tile.staged ? staged : 0);
  }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const Batch<T>& batch = args.batch;
    const Columns& columns = batch.columns;
    const int64_t first = place.block * args.tile.rows;
    const int n = rows_of_tile(args.tile, batch.num_rows, first), D = columns.width;
    int32_t* map = reinterpret_cast<int32_t*>(shared);
    T* out = args.out + first * D;
    T* tile = args.tile.staged ? reinterpret_cast<T*>(shared + map_bytes(columns)) : out;
    if constexpr (kPhase == 0) {
      map_columns(columns, place.thread, kThreads, map);
    } else if constexpr (kPhase == 1) {
      const int quads = static_cast<int>(args.quads.divisor);
      const NoiseKey key = read_noise_key(args.key);
      for (int item = place.thread; item < n * quads; item += kThreads) {
        const int i = quotient(item, args.quads), block = item - i * quads;
        perturb_quad(args, key, map, first + i, block, tile + static_cast<int64_t>(i) * D);
      }
    } else if (args.tile.staged) {
      copy_tile(tile, out, n * D, place.thread, kThreads);
    }
  }

  MISSDIFF_INLINE void perturb_quad(const Args& args, const NoiseKey& key, const int32_t* map, int64_t i, int block,
                                    T* row) {
    const Batch<T>& batch = args.batch;
    const Columns& columns = batch.columns;
    const int C = columns.continuous, K = columns.categorical;
    const int64_t stored = batch.rows[i];
    require(0 <= stored && stored < batch.stored);
    const uint8_t* states = batch.states + i * (C + K);
    T x0[4];
    int32_t state[4];
    bool noisy = false;
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const int d = 4 * block + j;
      state[j] = kHidden;
      x0[j] = T(0);
      if (d >= columns.width) continue;
      const Spot spot = spot_of(columns, map, d);
      state[j] = states[spot.column];
      noisy |= state[j] == kNoisy;
      if (d < C) {
        const T x = batch.continuous[stored * C + d];
        x0[j] = x == x ? x : T(0);
      } else {
        const int k = spot.column - C;
        const int code = batch.codes[stored * K + k];
        if (spot.place == 0) require(code < columns.offsets[k + 1] - columns.offsets[k]);
        x0[j] = code == spot.place ? args.high : (code >= 0 ? args.low : T(0));
      }
    }
    float eps[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (noisy) normal_quad(key, stored, block, eps);
    const T alpha = args.alpha[i], sigma = args.sigma[i];
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const int d = 4 * block + j;
      if (d < columns.width) row[d] = perturb_cell(state[j], x0[j], alpha, sigma, static_cast<T>(eps[j]));
    }
  }
};

}  // namespace missdiff::cuda
