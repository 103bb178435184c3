// Philox over a tile of blocks, one 64-bit lane for each block.
//
// In a 64-bit lane the 32x32 product is one instruction. It reads lower halves only, so the upper halves of other words
// may hold anything. Compilers do not derive this from the scalar code.
#pragma once

#include "../../philox.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace missdiff::cpu {

#if defined(__AVX512F__)
constexpr int kLanes = 8;
#elif defined(__AVX2__)
constexpr int kLanes = 4;
#else
constexpr int kLanes = 2;
#endif

typedef uint64_t Lanes __attribute__((vector_size(8 * kLanes), aligned(8 * kLanes), may_alias));

// The product of the lower halves of each lane.
static inline __attribute__((always_inline)) Lanes multiply_low(Lanes a, Lanes b) {
#if defined(__AVX512F__)
  // The plain intrinsic names an uninitialised register in GCC's header and warns.
  return (Lanes)_mm512_maskz_mul_epu32(0xFF, (__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (Lanes)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
  return (Lanes)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
  return (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
#endif
}

// Words of `count` blocks (a multiple of 2 * kLanes), all with the same step and key. For each block, `even` gets words
// 0 and 2 and `odd` words 1 and 3: the first and the second of the two pairs that Box-Muller wants. All arrays are
// aligned to 64 bytes.
static inline void philox_tile(const int64_t* row, const int64_t* block, uint32_t step, uint32_t k0, uint32_t k1,
                               int count, uint32_t* even, uint32_t* odd) {
  const Lanes m0 = Lanes{} + 0xD2511F53u, m1 = Lanes{} + 0xCD9E8D57u, low = Lanes{} + 0xFFFFFFFFu;
  for (int i = 0; i < count; i += 2 * kLanes) {
    // Two vectors at once hide the latency of the multiplications.
    Lanes c0[2], c1[2], c2[2], c3[2];
    for (int h = 0; h < 2; ++h) {
      c0[h] = *reinterpret_cast<const Lanes*>(row + i + h * kLanes);
      c1[h] = c0[h] >> 32;
      c2[h] = *reinterpret_cast<const Lanes*>(block + i + h * kLanes);
      c3[h] = Lanes{} + step;
    }
    uint32_t r0 = k0, r1 = k1;
    MISSDIFF_UNROLL(10)
    for (int round = 0; round < 10; ++round) {
      const Lanes key0 = Lanes{} + r0, key1 = Lanes{} + r1;
      MISSDIFF_UNROLL(2)
      for (int h = 0; h < 2; ++h) {
        const Lanes p0 = multiply_low(c0[h], m0), p1 = multiply_low(c2[h], m1);
        c0[h] = (p1 >> 32) ^ c1[h] ^ key0;
        c2[h] = (p0 >> 32) ^ c3[h] ^ key1;
        c1[h] = p1;
        c3[h] = p0;
      }
      r0 += 0x9E3779B9u;
      r1 += 0xBB67AE85u;
    }
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<Lanes*>(even + 2 * (i + h * kLanes)) = (c0[h] & low) | (c2[h] << 32);
      *reinterpret_cast<Lanes*>(odd + 2 * (i + h * kLanes)) = (c1[h] & low) | (c3[h] << 32);
    }
  }
}

}  // namespace missdiff::cpu
