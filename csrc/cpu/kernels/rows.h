// Helpers of the row kernels: tiles of noise, and a row's states spread over encoded columns.
#pragma once

#include "../../cells.h"
#include "kernels.h"
#include "philox_tile.h"
#include "scratch.h"

namespace missdiff::cpu {
namespace {

// Calls f(begin, end) for ranges of whole vectors that cover [0, n). The last vector overlaps the one before, so f
// visits some numbers twice. Scalar remainders would take much of the time of short rows.
template <class T, class F>
MISSDIFF_INLINE void cover(int64_t n, const F& f) {
  constexpr int64_t kVector = 8 * kLanes / static_cast<int64_t>(sizeof(T));
  int64_t begin = 0, end = n < kVector ? n : n / kVector * kVector;
  for (;;) {
    f(begin, end);
    if (end == n) return;
    begin = n - kVector;
    end = n;
  }
}

constexpr int kChunk = 64;  // Philox blocks at a time, whose words fit in the L1 cache

struct NoiseTile {
  int64_t blocks;  // of a row
  int64_t stride;  // floats from one row to the next: 4 * blocks
  int64_t rows;    // of a full tile
  float* values;
};

inline NoiseTile noise_tile(int64_t columns, Scratch& scratch) {
  NoiseTile tile;
  tile.blocks = (columns + 3) / 4;
  tile.stride = 4 * tile.blocks;
  tile.rows = tile.blocks == 0 ? 1 : (kTileBlocks + tile.blocks - 1) / tile.blocks;
  tile.values = scratch.take<float>(tile.stride * tile.rows + 4 * kChunk);
  return tile;
}

// Fills the tile for n rows; the last chunk may write up to 4 * kChunk floats past the end.
template <bool kNormal>
inline void fill_noise(const NoiseTile& tile, const int64_t* rows, int64_t n, int64_t seed, int64_t step) {
  const uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32);
  alignas(64) int64_t row_number[kChunk], block[kChunk];
  alignas(64) uint32_t even[2 * kChunk], odd[2 * kChunk];
  for (int i = 0; i < kChunk; ++i) row_number[i] = block[i] = 0;
  const int64_t total = n * tile.blocks;
  int64_t row = 0, b = 0;
  for (int64_t done = 0; done < total; done += kChunk) {
    int filled = 0;
    while (filled < kChunk && row < n) {
      const int64_t left = tile.blocks - b;
      const int take = left < kChunk - filled ? static_cast<int>(left) : kChunk - filled;
      for (int i = 0; i < take; ++i) {
        row_number[filled + i] = rows[row];
        block[filled + i] = b + i;
      }
      filled += take;
      b += take;
      if (b == tile.blocks) {
        b = 0;
        ++row;
      }
    }
    philox_tile(row_number, block, static_cast<uint32_t>(step), k0, k1, kChunk, even, odd);
    float* __restrict out = tile.values + 4 * done;
    for (int i = 0; i < 2 * kChunk; ++i) {
      if (kNormal) {
        normal_pair(even[i], odd[i], out[2 * i], out[2 * i + 1]);
      } else {
        out[2 * i] = open_unit(even[i]);
        out[2 * i + 1] = open_unit(odd[i]);
      }
    }
  }
}

// Copies one value per table column to every encoded column of it. Real tables have long runs of groups of two, which
// have a loop of their own.
template <class In>
inline void spread(const Columns& columns, const In* __restrict in, int32_t* __restrict out) {
  const int64_t C = columns.continuous;
  for (int64_t c = 0; c < C; ++c) out[c] = static_cast<int32_t>(in[c]);
  for (int64_t r = 0; r < columns.num_runs; ++r) {
    const Run run = columns.runs[r];
    const In* __restrict from = in + C + run.first;
    int32_t* __restrict to = out + run.column;
    if (run.size == 2) {
      for (int64_t k = 0; k < run.groups; ++k) {
        to[2 * k] = static_cast<int32_t>(from[k]);
        to[2 * k + 1] = static_cast<int32_t>(from[k]);
      }
    } else {
      for (int64_t k = 0; k < run.groups; ++k) {
        const int32_t value = static_cast<int32_t>(from[k]);
        for (int64_t j = 0; j < run.size; ++j) to[j] = value;
        to += run.size;
      }
    }
  }
}

// Widens a row's codes. The result is nonzero if one is too large.
inline int load_codes(const Columns& columns, const int16_t* __restrict codes, int32_t* __restrict out) {
  int32_t bad = 0;
  for (int64_t k = 0; k < columns.categorical; ++k) {
    out[k] = codes[k];
    bad |= codes[k] > columns.last[k];
  }
  return bad;
}

// Prefetches n bytes. It must be inlined: GCC drops calls of a function that only prefetches as having no effect.
MISSDIFF_INLINE void prefetch_bytes(const void* from, int64_t n) {
  const char* bytes = static_cast<const char*>(from);
  for (int64_t i = 0; i < n; i += 64) __builtin_prefetch(bytes + i);
  __builtin_prefetch(bytes + n - 1);
}

constexpr int64_t kAhead = 16;  // rows; for tables beyond the caches 8 is measured to be too late, and 32 is no better

// Prefetches a later row: rows come in random order, which hardware prefetchers cannot follow.
template <class T>
MISSDIFF_INLINE void prefetch_row(const BatchArgs& batch, int64_t i, bool values) {
  if (i >= batch.num_rows) return;
  const int64_t row = batch.rows[i], C = batch.columns.continuous, K = batch.columns.categorical;
  const int64_t bytes = C * static_cast<int64_t>(sizeof(T));
  if (C > 0) prefetch_bytes(static_cast<const T*>(batch.continuous) + row * C, bytes);
  if (K > 0) prefetch_bytes(batch.codes + row * K, K * 2);
  if (values && C > 0) prefetch_bytes(static_cast<const T*>(batch.values) + row * C, bytes);
}

}  // namespace
}  // namespace missdiff::cpu
