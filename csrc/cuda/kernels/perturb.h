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
template <class T, bool kStaged>
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
    return map_bytes(columns) + (kStaged ? staged : 0);
  }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const Batch<T>& batch = args.batch;
    const Columns& columns = batch.columns;
    const int64_t first = place.block * args.tile.rows;
    const int n = rows_of_tile(args.tile, batch.num_rows, first), D = columns.width;
    int32_t* map = reinterpret_cast<int32_t*>(shared);
    T* out = args.out + first * D;
    T* tile = kStaged ? reinterpret_cast<T*>(shared + map_bytes(columns)) : out;
    if constexpr (kPhase == 0) {
      map_columns(columns, place.thread, kThreads, map);
    } else if constexpr (kPhase == 1) {
      const int quads = static_cast<int>(args.quads.divisor);
      const NoiseKey key = read_noise_key(args.key);
      for (int item = place.thread; item < n * quads; item += kThreads) {
        const int i = quotient(item, args.quads), block = item - i * quads;
        perturb_quad(args, key, map, first + i, block, tile + static_cast<ptrdiff_t>(i) * D + 4 * block);
      }
    } else if constexpr (kStaged) {
      copy_tile(tile, out, n * D, place.thread, kThreads);
    }
  }

  // Reads everything before it checks or computes, so that a thread waits for memory twice: for the number of the row,
  // and for its cells.
  MISSDIFF_INLINE void perturb_quad(const Args& args, const NoiseKey& key, const int32_t* map, int64_t i, int block,
                                    T* row) {
    const Batch<T>& batch = args.batch;
    const Columns& columns = batch.columns;
    const int C = columns.continuous, K = columns.categorical, first = 4 * block;
    const int64_t stored = batch.rows[i];
    require(0 <= stored && stored < batch.stored);
    const T alpha = args.alpha[i], sigma = args.sigma[i];
    const uint8_t* states = batch.states + i * (C + K);
    const T* cells = batch.continuous + stored * C;
    const int16_t* codes = batch.codes + stored * K;
    Spot spots[4];
    spots_of<kStaged>(columns, map, first, spots);
    T x0[4];
    int32_t state[4], code[4];
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const int d = first + j;
      x0[j] = T(0);
      code[j] = -1;
      state[j] = kHidden;
      if (d < columns.width) state[j] = states[spots[j].column];
      if (d < C) x0[j] = cells[d];
      if (C <= d && d < columns.width) code[j] = codes[spots[j].column - C];
    }
    bool noisy = false, fits = true;
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      noisy |= state[j] == kNoisy;
      fits &= spots[j].size == 0 || code[j] < spots[j].size;
      if (first + j < C) {
        x0[j] = x0[j] == x0[j] ? x0[j] : T(0);
      } else {
        x0[j] = code[j] < 0 ? T(0) : (code[j] == spots[j].place ? args.high : args.low);
      }
    }
    require(fits);
    float eps[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (noisy) normal_quad(key, stored, block, eps);
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      if (first + j < columns.width) row[j] = perturb_cell(state[j], x0[j], alpha, sigma, static_cast<T>(eps[j]));
    }
  }
};

}  // namespace missdiff::cuda
