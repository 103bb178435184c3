// Tiles in shared memory, for ops that work by columns or in a wider type than the tensor's.
#pragma once

#include "tile.h"

namespace missdiff::cuda {

// Layout of rows in shared memory. Where a warp's threads read one column of several rows, a stride that is a multiple
// of 4 would cause bank conflicts, so such rows are padded by one number.
struct Stage {
  int width, stride;
  Divider by;  // the width
  Stage() = default;
  explicit Stage(int64_t width_, bool by_columns)
      : width(static_cast<int>(width_)),
        stride(static_cast<int>(by_columns && width_ % 4 == 0 ? width_ + 1 : width_)),
        by(width_ > 0 ? width_ : 1) {}
};

template <class T>
MISSDIFF_INLINE int64_t stage_bytes(const Stage& stage, int rows) {
  return (static_cast<int64_t>(sizeof(T)) * stage.stride * rows + 15) / 16 * 16;
}

// Loads n adjacent rows from global memory, from an address aligned to 16 bytes.
template <class T, class P>
MISSDIFF_INLINE void load_rows(const P* from, int n, const Stage& stage, T* to, int thread, int threads) {
  const int count = n * stage.width;
  if (stage.stride != stage.width) {
    for (int e = thread; e < count; e += threads) to[e + quotient(e, stage.by)] = static_cast<T>(widen(from[e]));
    return;
  }
  constexpr int kEach = static_cast<int>(sizeof(Vector) / sizeof(P)), kParts = static_cast<int>(sizeof(T) / sizeof(P));
  const int whole = count / kEach;
  for (int v = thread; v < whole; v += threads) {
    const Vector vector = reinterpret_cast<const Vector*>(from)[v];
    P cells[kEach];
    T wide[kEach];
    Vector parts[kParts];
    __builtin_memcpy(cells, &vector, sizeof vector);
    MISSDIFF_UNROLL(8)
    for (int j = 0; j < kEach; ++j) wide[j] = static_cast<T>(widen(cells[j]));
    __builtin_memcpy(parts, wide, sizeof parts);
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < kParts; ++j) reinterpret_cast<Vector*>(to)[v * kParts + j] = parts[j];
  }
  for (int e = whole * kEach + thread; e < count; e += threads) to[e] = static_cast<T>(widen(from[e]));
}

// Inverse of load_rows.
template <class T, class P>
MISSDIFF_INLINE void store_rows(const T* from, int n, const Stage& stage, P* to, int thread, int threads) {
  const int count = n * stage.width;
  if (stage.stride != stage.width) {
    for (int e = thread; e < count; e += threads) narrow(from[e + quotient(e, stage.by)], to[e]);
    return;
  }
  constexpr int kEach = static_cast<int>(sizeof(Vector) / sizeof(P)), kParts = static_cast<int>(sizeof(T) / sizeof(P));
  const int whole = count / kEach;
  for (int v = thread; v < whole; v += threads) {
    Vector parts[kParts], vector;
    T wide[kEach];
    P cells[kEach];
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < kParts; ++j) parts[j] = reinterpret_cast<const Vector*>(from)[v * kParts + j];
    __builtin_memcpy(wide, parts, sizeof parts);
    MISSDIFF_UNROLL(8)
    for (int j = 0; j < kEach; ++j) narrow(wide[j], cells[j]);
    __builtin_memcpy(&vector, cells, sizeof vector);
    reinterpret_cast<Vector*>(to)[v] = vector;
  }
  for (int e = whole * kEach + thread; e < count; e += threads) narrow(from[e], to[e]);
}

// Encoded columns of a categorical column. Offsets are known on the device only, and are checked where they are used.
struct Group {
  int first, size;
};

MISSDIFF_INLINE Group group_of(const Columns& columns, int k) {
  const int64_t first = columns.offsets[k], end = columns.offsets[k + 1];
  require(columns.continuous <= first && first < end && end <= columns.width && end - first <= kMostCategories);
  return {static_cast<int>(first), static_cast<int>(end - first)};
}

template <class T, class P>
MISSDIFF_INLINE T largest_of(const P* in, int size) {
  T largest = static_cast<T>(widen(in[0]));
  for (int j = 1; j < size; ++j) {
    const T x = static_cast<T>(widen(in[j]));
    largest = x > largest ? x : largest;
  }
  return largest;
}

}  // namespace missdiff::cuda
