// The 16-bit floating-point types, kept as their bits, and the conversions between all types of cells.
#pragma once

#include "macros.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace missdiff {

struct Bfloat16 {
  uint16_t bits;
};

struct Float16 {
  uint16_t bits;
};

MISSDIFF_INLINE float widen(float x) { return x; }
MISSDIFF_INLINE double widen(double x) { return x; }

MISSDIFF_INLINE float widen(Bfloat16 x) {
  return bits_float(static_cast<int32_t>(static_cast<uint32_t>(x.bits) << 16));
}

MISSDIFF_INLINE float widen(Float16 x) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(x.bits));
#else
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16, rest = x.bits & 0x7FFFu;
  // Multiplying by 2^112 moves the exponent's bias and makes normal numbers of subnormal ones.
  const float scaled = bits_float(static_cast<int32_t>(rest << 13)) * 5.192296858534828e33f;
  const uint32_t bits = rest >= 0x7C00u ? 0x7F800000u | (rest << 13) : static_cast<uint32_t>(float_bits(scaled));
  return bits_float(static_cast<int32_t>(sign | bits));
#endif
}

MISSDIFF_INLINE void narrow(float x, float& y) { y = x; }
MISSDIFF_INLINE void narrow(double x, double& y) { y = x; }

// Round to nearest, ties to even; any NaN becomes the quiet one that PyTorch writes.
MISSDIFF_INLINE void narrow(float x, Bfloat16& y) {
  const uint32_t bits = static_cast<uint32_t>(float_bits(x));
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  y.bits = static_cast<uint16_t>(x != x ? 0x7FC0u : rounded);
}

MISSDIFF_INLINE void narrow(float x, Float16& y) {
#ifdef __CUDA_ARCH__
  y.bits = __half_as_ushort(__float2half_rn(x));
#else
  const uint32_t bits = static_cast<uint32_t>(float_bits(x)), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7FFFFFFFu;
  uint32_t half;
  if (rest > 0x7F800000u) {
    half = 0x7E00u;
  } else if (rest >= 0x477FF000u) {  // 65520 and beyond round to infinity
    half = 0x7C00u;
  } else if (rest < 0x38800000u) {  // below 2^-14: adding 1/2 leaves the multiples of 2^-24 in the low bits
    half = static_cast<uint32_t>(float_bits(bits_float(static_cast<int32_t>(rest)) + 0.5f)) - 0x3F000000u;
  } else {
    half = (rest - 0x38000000u + 0xFFFu + ((rest >> 13) & 1u)) >> 13;
  }
  y.bits = static_cast<uint16_t>(sign | half);
#endif
}

template <class Half>
MISSDIFF_INLINE void narrow(double x, Half& y) {
  narrow(static_cast<float>(x), y);
}

}  // namespace missdiff
