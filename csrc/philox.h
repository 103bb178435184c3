// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011) and the transforms of its words.
//
// Every floating-point operation is a single, correctly rounded float32 operation, in the order of
// missdiff_fast.ops.reference, so that every processor gives the same bits. Compile with -ffp-contract=off.
#pragma once

#include "division.h"

namespace missdiff {

// Computes one block of four words in place. The counter is (row low, row high, block, step).
MISSDIFF_INLINE void philox(uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3, uint32_t k0, uint32_t k1) {
  MISSDIFF_UNROLL(10)
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(c0) * 0xD2511F53u;
    const uint64_t p1 = static_cast<uint64_t>(c2) * 0xCD9E8D57u;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// The odd number 2k + 1, where k is a word's upper 23 bits. Divided by 2^24 it is uniform in (0, 1), exact in float32.
MISSDIFF_INLINE int32_t odd_numerator(uint32_t word) { return static_cast<int32_t>((word >> 8) | 1u); }

MISSDIFF_INLINE float open_unit(uint32_t word) {
  return static_cast<float>(odd_numerator(word)) * (1.0f / 16777216.0f);
}

// f / (2 + f), correctly rounded, for the f of a logarithm: of 2^23 values from sqrt(1/2) - 1 to sqrt(2) - 1.
MISSDIFF_INLINE float log_ratio(float f) { return divide_plainly(f, 2.0f + f); }

// Natural logarithm of x / 2^scale for a positive normal x, as FreeBSD's logf computes it. Infinity and NaN are not
// handled. The scale and the exponent's bias are subtracted as unsigned integers, so that the bits of a NaN do not
// overflow.
MISSDIFF_INLINE float log_positive(float x, int32_t scale) {
  const int32_t bits = static_cast<int32_t>(static_cast<uint32_t>(float_bits(x)) + (0x3F800000u - 0x3F3504F3u) -
                                            (static_cast<uint32_t>(127 + scale) << 23));
  const float exponent = static_cast<float>(bits >> 23);
  const float f = bits_float((bits & 0x007FFFFF) + 0x3F3504F3) - 1.0f;
  const float s = log_ratio(f);
  const float z = s * s;
  const float w = z * z;
  const float r = z * (0.66666662693f + w * 0.28498786688f) + w * (0.40000972152f + w * 0.24279078841f);
  const float half = 0.5f * f * f;
  return s * (half + r) + exponent * 9.0580006145e-06f - half + f + exponent * 6.9313812256e-01f;
}

// Cosine and sine of 2 pi n / 2^24 for 0 < n < 2^24: quadrant, then Cephes' polynomials. Integers replace the
// reference's exact floating-point operations before the first rounding.
MISSDIFF_INLINE void cos_sin_turn(int32_t n, float& cosine, float& sine) {
  const int32_t quadrant = (n + (1 << 21)) >> 22;
  const float y = static_cast<float>(n - (quadrant << 22)) * (1.57079632679489661923f / 4194304.0f);
  const float z = y * y;
  const float s = y + y * z * (-1.6666654611e-1f + z * (8.3321608736e-3f + z * -1.9515295891e-4f));
  const float c =
      1.0f - 0.5f * z + z * z * (4.166664568298827e-2f + z * (-1.388731625493765e-3f + z * 2.443315711809948e-5f));
  // Flipping sign bits saves a select and a negation.
  const bool odd = (quadrant & 1) != 0;
  const uint32_t cosine_sign = (static_cast<uint32_t>(quadrant + 1) & 2u) << 30;
  const uint32_t sine_sign = (static_cast<uint32_t>(quadrant) & 2u) << 30;
  cosine = bits_float(static_cast<int32_t>(static_cast<uint32_t>(float_bits(odd ? s : c)) ^ cosine_sign));
  sine = bits_float(static_cast<int32_t>(static_cast<uint32_t>(float_bits(odd ? c : s)) ^ sine_sign));
}

// Box-Muller: two words to two independent standard normal numbers.
MISSDIFF_INLINE void normal_pair(uint32_t word0, uint32_t word1, float& first, float& second) {
  float cosine, sine;
  cos_sin_turn(odd_numerator(word1), cosine, sine);
  const float radius = square_root(-2.0f * log_positive(static_cast<float>(odd_numerator(word0)), 24));
  first = radius * cosine;
  second = radius * sine;
}

}  // namespace missdiff
