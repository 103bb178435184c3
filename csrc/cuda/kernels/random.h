// Random numbers of missdiff_fast.ops.reference, four columns of a row for each Philox block.
#pragma once

#include "tile.h"

namespace missdiff::cuda {

// The key is read on the device, so that it can change between replays of a graph.
MISSDIFF_INLINE void philox_quad(const int64_t* key, int64_t row, int block, uint32_t (&words)[4]) {
  const uint64_t seed = static_cast<uint64_t>(key[0]), place = static_cast<uint64_t>(row);
  words[0] = static_cast<uint32_t>(place);
  words[1] = static_cast<uint32_t>(place >> 32);
  words[2] = static_cast<uint32_t>(block);
  words[3] = static_cast<uint32_t>(key[1]);
  philox(words[0], words[1], words[2], words[3], static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

MISSDIFF_INLINE void normal_quad(const int64_t* key, int64_t row, int block, float (&numbers)[4]) {
  uint32_t words[4];
  philox_quad(key, row, block, words);
  normal_pair(words[0], words[1], numbers[0], numbers[1]);
  normal_pair(words[2], words[3], numbers[2], numbers[3]);
}

// Uniform or normal numbers of each row.
template <bool kNormal>
struct Random {
  struct Args {
    const int64_t* rows;  // [B]
    const int64_t* key;   // [2]
    int64_t num_rows;     // B
    int columns;
    Divider quads;  // blocks of a row
    Tile tile;
    float* out;  // [B, columns]
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 2;

  static int64_t shared_bytes(const Args& args) {
    return args.tile.staged ? static_cast<int64_t>(sizeof(float)) * args.tile.rows * args.columns : 0;
  }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const int64_t first = place.block * args.tile.rows;
    const int n = rows_of_tile(args.tile, args.num_rows, first), columns = args.columns;
    float* out = args.out + first * columns;
    float* tile = args.tile.staged ? reinterpret_cast<float*>(shared) : out;
    if constexpr (kPhase == 0) {
      const int quads = static_cast<int>(args.quads.divisor);
      for (int item = place.thread; item < n * quads; item += kThreads) {
        const int i = quotient(item, args.quads), block = item - i * quads;
        float numbers[4];
        if constexpr (kNormal) {
          normal_quad(args.key, args.rows[first + i], block, numbers);
        } else {
          uint32_t words[4];
          philox_quad(args.key, args.rows[first + i], block, words);
          MISSDIFF_UNROLL(4)
          for (int j = 0; j < 4; ++j) numbers[j] = open_unit(words[j]);
        }
        MISSDIFF_UNROLL(4)
        for (int j = 0; j < 4; ++j) {
          if (4 * block + j < columns) tile[static_cast<int64_t>(i) * columns + 4 * block + j] = numbers[j];
        }
      }
    } else if (args.tile.staged) {
      copy_tile(tile, out, n * columns, place.thread, kThreads);
    }
  }
};

}  // namespace missdiff::cuda
