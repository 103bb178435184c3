// Rows that a block works on together. They are adjacent in memory, so that a tile of any width is copied to and from
// shared memory with 16-byte accesses.
#pragma once

#include <type_traits>

#include "../../cells.h"
#include "grid.h"

namespace missdiff::cuda {

// Layout of an encoded row; see missdiff_fast.table.encoded.Layout. Offsets are on the device.
struct Columns {
  int continuous;          // C
  int categorical;         // K
  int width;               // D
  const int64_t* offsets;  // [K + 1]
};

constexpr int kTileRows = 64;          // at most
constexpr int kTileBytes = 32 * 1024;  // at most, unless kLeastRows rows need more
constexpr int kLeastRows = 8;          // whole pieces of 16 bytes in every type
constexpr int kMostBytes = 64 * 1024;  // for kLeastRows rows; every supported device has 24 KiB more
constexpr int kMostWidth = 1 << 18;    // of a row, so that 32 bits count the numbers of a tile

// Division of a batch into tiles. A kernel knows when it is compiled whether tiles are staged, so that it accesses
// shared memory as such.
struct Tile {
  int rows;     // of each but the last
  bool staged;  // in shared memory; else in global memory
};

// Calls `function` with `staged` as a type.
template <class Function>
auto with_staged(const Tile& tile, Function function) {
  return tile.staged ? function(std::true_type()) : function(std::false_type());
}

// Tiles whose rows take `row_bytes` bytes of shared memory each.
inline Tile make_tile(int64_t row_bytes) {
  Tile tile{kTileRows, true};
  while (tile.rows > kLeastRows && tile.rows * row_bytes > kTileBytes) tile.rows /= 2;
  tile.staged = tile.rows * row_bytes <= kMostBytes;
  return tile;
}

inline int64_t num_tiles(const Tile& tile, int64_t num_rows) { return (num_rows + tile.rows - 1) / tile.rows; }

MISSDIFF_INLINE int rows_of_tile(const Tile& tile, int64_t num_rows, int64_t first) {
  return static_cast<int>(num_rows - first < tile.rows ? num_rows - first : tile.rows);
}

// The table column of an encoded column, its index within the column's group, and the group's size, or 0 where the
// index is not 0.
struct Spot {
  int column, place, size;
};

MISSDIFF_INLINE Spot find_spot(const Columns& columns, int d) {
  if (d < columns.continuous) return {d, 0, 0};
  int low = 0, high = columns.categorical;  // the group that begins at d or before
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (columns.offsets[middle] <= d) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const int place = d - static_cast<int>(columns.offsets[low]);
  const int size = place == 0 ? static_cast<int>(columns.offsets[low + 1]) - d : 0;
  return {columns.continuous + low, place, size};
}

constexpr int kMostCategories = 32767;  // codes are int16

constexpr int kMappedWidth = 4096;  // wider rows, which are not staged, search for spots
static_assert(kMostBytes / kLeastRows / static_cast<int>(sizeof(float)) <= kMappedWidth, "staged rows have a map");

MISSDIFF_INLINE int64_t map_bytes(const Columns& columns) {
  return columns.width <= kMappedWidth ? (4 * static_cast<int64_t>(columns.width) + 15) / 16 * 16 : 0;
}

// Offsets that do not describe the encoded row end the launch.
MISSDIFF_INLINE void check_columns(const Columns& columns, int thread, int threads) {
  if (thread == 0) {
    require(columns.offsets[0] == columns.continuous && columns.offsets[columns.categorical] == columns.width);
  }
  for (int k = thread; k < columns.categorical; k += threads) {
    const int64_t size = columns.offsets[k + 1] - columns.offsets[k];
    require(0 < size && size <= kMostCategories);
  }
}

// Writes the spots of all encoded columns to shared memory, up to kMappedWidth columns.
MISSDIFF_INLINE void map_columns(const Columns& columns, int thread, int threads, int32_t* map) {
  check_columns(columns, thread, threads);
  if (columns.width > kMappedWidth) return;
  for (int d = thread; d < columns.width; d += threads) {
    const Spot spot = find_spot(columns, d);
    map[d] = spot.column | (spot.size > 0 ? -spot.size : spot.place) * (1 << 16);
  }
}

MISSDIFF_INLINE Spot read_spot(int32_t mapped) {
  const int index = mapped >> 16;  // or the size, negated
  return {mapped & 0xFFFF, index > 0 ? index : 0, index < 0 ? -index : 0};
}

template <bool kStaged>
MISSDIFF_INLINE Spot spot_of(const Columns& columns, const int32_t* map, int d) {
  return !kStaged && columns.width > kMappedWidth ? find_spot(columns, d) : read_spot(map[d]);
}

struct alignas(16) Vector {
  uint32_t words[4];
};

// The spots of four columns from d, a multiple of 4. Those beyond the row are anything.
template <bool kStaged>
MISSDIFF_INLINE void spots_of(const Columns& columns, const int32_t* map, int d, Spot (&spots)[4]) {
  if (!kStaged && columns.width > kMappedWidth) {
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) spots[j] = find_spot(columns, d + j < columns.width ? d + j : d);
    return;
  }
  const Vector mapped = load_as<Vector>(map + d);
  MISSDIFF_UNROLL(4)
  for (int j = 0; j < 4; ++j) spots[j] = read_spot(static_cast<int32_t>(mapped.words[j]));
}

// Copies a tile of `count` numbers from or to global memory, where its start is aligned to 16 bytes. The last tile may
// end within a vector.
template <class T>
MISSDIFF_INLINE void copy_tile(const T* from, T* to, int count, int thread, int threads) {
  constexpr int kEach = static_cast<int>(sizeof(Vector) / sizeof(T));
  const int whole = count / kEach;
  for (int i = thread; i < whole; i += threads) {
    reinterpret_cast<Vector*>(to)[i] = reinterpret_cast<const Vector*>(from)[i];
  }
  for (int i = whole * kEach + thread; i < count; i += threads) to[i] = from[i];
}

}  // namespace missdiff::cuda
