// Random numbers of missdiff_fast.ops.reference, four columns of a row for each Philox block.
//
// The bits are those of philox.h in fewer instructions: divisions and roots without a branch for other operands,
// multiplications by powers of two left out or put into constants, and a product that is exact fused with its sum.
#pragma once

#include "tile.h"

namespace missdiff::cuda {

// A noise key, read on the device, so that it can change between replays of a graph. A thread reads it once for all its
// blocks. All threads of a warp hold the same, which lets the compiler add the round keys up once a warp, in uniform
// registers.
struct NoiseKey {
  uint32_t first, second, step;
};

// A number that is the same in all threads of a full warp.
MISSDIFF_INLINE uint32_t uniform_of_warp(uint32_t x) {
#ifdef __CUDA_ARCH__
  return __reduce_or_sync(0xFFFFFFFFu, x);
#else
  return x;
#endif
}

// All threads of the warp call it.
MISSDIFF_INLINE NoiseKey read_noise_key(const int64_t* key) {
  const uint64_t seed = static_cast<uint64_t>(key[0]);
  return {uniform_of_warp(static_cast<uint32_t>(seed)), uniform_of_warp(static_cast<uint32_t>(seed >> 32)),
          uniform_of_warp(static_cast<uint32_t>(key[1]))};
}

// As missdiff::philox. The compiler adds 0 to the upper half of a product that C++ writes in 64 bits.
MISSDIFF_INLINE void multiply_wide(uint32_t a, uint32_t b, uint32_t& high, uint32_t& low) {
#ifdef __CUDA_ARCH__
  asm("{.reg .u64 p; mul.wide.u32 p, %2, %3; mov.b64 {%0, %1}, p;}" : "=r"(low), "=r"(high) : "r"(a), "r"(b));
#else
  const uint64_t product = static_cast<uint64_t>(a) * b;
  high = static_cast<uint32_t>(product >> 32);
  low = static_cast<uint32_t>(product);
#endif
}

MISSDIFF_INLINE void philox_quad(const NoiseKey& key, int64_t row, int block, uint32_t (&words)[4]) {
  const uint64_t place = static_cast<uint64_t>(row);
  uint32_t c0 = static_cast<uint32_t>(place), c1 = static_cast<uint32_t>(place >> 32);
  uint32_t c2 = static_cast<uint32_t>(block), c3 = key.step;
  MISSDIFF_UNROLL(10)
  for (uint32_t round = 0; round < 10; ++round) {
    uint32_t high0, high1, low0, low1;
    multiply_wide(c0, 0xD2511F53u, high0, low0);
    multiply_wide(c2, 0xCD9E8D57u, high1, low1);
    c0 = high1 ^ c1 ^ (key.first + round * 0x9E3779B9u);
    c2 = high0 ^ c3 ^ (key.second + round * 0xBB67AE85u);
    c1 = low1;
    c3 = low0;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}

// The square root of x, a radius's square, from any reciprocal root within a relative error of 2^-22.9, the bound of
// `rsqrt.approx`. tests/test_cuda_host.py tries all for every word.
MISSDIFF_INLINE float radius_from(float x, float reciprocal) {
  const float root = x * reciprocal, half = 0.5f * reciprocal;
  const float better = fused_multiply_add(root, fused_multiply_add(-root, half, 0.5f), root);
  return fused_multiply_add(fused_multiply_add(-better, better, x), half, better);
}

// -2 log(n / 2^24) of a word's odd numerator n. Every term of `log_positive` is here times -2 or 2, which is exact.
MISSDIFF_INLINE float squared_radius(uint32_t word) {
  const int32_t bits = float_bits(static_cast<float>(odd_numerator(word))) +
                       static_cast<int32_t>((0x3F800000u - 0x3F3504F3u) - (151u << 23));
  const float exponent = static_cast<float>(bits >> 23);
  const float f = bits_float((bits & 0x007FFFFF) + 0x3F3504F3) - 1.0f;
  const float s = log_ratio(f);
  const float z = s * s;
  const float w = z * z;
  const float r = z * (2.0f * 0.66666662693f + w * (2.0f * 0.28498786688f)) +
                  w * (2.0f * 0.40000972152f + w * (2.0f * 0.24279078841f));
  const float square = f * f;
  const float sum = -s * (square + r) + exponent * (-2.0f * 9.0580006145e-06f) + square;
  // -2 f is exact, and so is the exponent, an integer of 5 bits, times a constant of 17 bits.
  return fused_multiply_add(exponent, -2.0f * 6.9313812256e-01f, fused_multiply_add(-2.0f, f, sum));
}

MISSDIFF_INLINE float radius_of(uint32_t word) {
  const float x = squared_radius(word);
#ifdef __CUDA_ARCH__
  float reciprocal;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return radius_from(x, reciprocal);
#else
  return square_root(x);
#endif
}

// `cos_sin_turn` of a word's odd numerator n. The quadrant is in the upper bits of the word and 1/8 of a turn; the
// lower 22 bits of n, as a signed number, are the rest of the turn, here times 2^10.
MISSDIFF_INLINE void cos_sin_of(uint32_t word, float& cosine, float& sine) {
  const uint32_t quadrant = word + 0x20000000u;
  const int32_t rest = static_cast<int32_t>((word << 2 & 0xFFFFFC00u) | 0x400u);
  const float y = static_cast<float>(rest) * (1.57079632679489661923f / 4294967296.0f);
  const float z = y * y;
  const float s = y + y * z * (-1.6666654611e-1f + z * (8.3321608736e-3f + z * -1.9515295891e-4f));
  const float c = fused_multiply_add(-0.5f, z, 1.0f) +
                  z * z * (4.166664568298827e-2f + z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f));
  const bool odd = (quadrant & 0x40000000u) != 0;
  const uint32_t cosine_sign = (quadrant + 0x40000000u) & 0x80000000u, sine_sign = quadrant & 0x80000000u;
  cosine = bits_float(static_cast<int32_t>(static_cast<uint32_t>(float_bits(odd ? s : c)) ^ cosine_sign));
  sine = bits_float(static_cast<int32_t>(static_cast<uint32_t>(float_bits(odd ? c : s)) ^ sine_sign));
}

MISSDIFF_INLINE void normal_quad(const NoiseKey& key, int64_t row, int block, float (&numbers)[4]) {
  uint32_t words[4];
  philox_quad(key, row, block, words);
  MISSDIFF_UNROLL(2)
  for (int j = 0; j < 4; j += 2) {
    float cosine, sine;
    cos_sin_of(words[j + 1], cosine, sine);
    const float radius = radius_of(words[j]);
    numbers[j] = radius * cosine;
    numbers[j + 1] = radius * sine;
  }
}

// The same for threads of which each has its own key, or of which some do not call it.
MISSDIFF_INLINE void normal_quad(const int64_t* key, int64_t row, int block, float (&numbers)[4]) {
  const uint64_t seed = static_cast<uint64_t>(key[0]);
  normal_quad(NoiseKey{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(key[1])},
              row, block, numbers);
}

// Uniform or normal numbers of each row.
template <bool kNormal, bool kStaged>
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
    return kStaged ? static_cast<int64_t>(sizeof(float)) * args.tile.rows * args.columns : 0;
  }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const int64_t first = place.block * args.tile.rows;
    const int n = rows_of_tile(args.tile, args.num_rows, first), columns = args.columns;
    float* out = args.out + first * columns;
    float* tile = kStaged ? reinterpret_cast<float*>(shared) : out;
    if constexpr (kPhase == 0) {
      const int quads = static_cast<int>(args.quads.divisor);
      const NoiseKey key = read_noise_key(args.key);
      for (int item = place.thread; item < n * quads; item += kThreads) {
        const int i = quotient(item, args.quads), block = item - i * quads;
        float* row = tile + static_cast<ptrdiff_t>(i) * columns + 4 * block;
        float numbers[4];
        if constexpr (kNormal) {
          normal_quad(key, args.rows[first + i], block, numbers);
        } else {
          uint32_t words[4];
          philox_quad(key, args.rows[first + i], block, words);
          MISSDIFF_UNROLL(4)
          for (int j = 0; j < 4; ++j) numbers[j] = open_unit(words[j]);
        }
        MISSDIFF_UNROLL(4)
        for (int j = 0; j < 4; ++j) {
          if (4 * block + j < columns) row[j] = numbers[j];
        }
      }
    } else if constexpr (kStaged) {
      copy_tile(tile, out, n * columns, place.thread, kThreads);
    }
  }
};

}  // namespace missdiff::cuda
