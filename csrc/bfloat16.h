// bfloat16, stored as its bits, and conversions between all types of cells.
#pragma once

#include "macros.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#endif

namespace missdiff {

struct Bfloat16 {
  uint16_t bits;
};

MISSDIFF_INLINE float widen(float x) { return x; }
MISSDIFF_INLINE double widen(double x) { return x; }

MISSDIFF_INLINE float widen(Bfloat16 x) {
  return bits_float(static_cast<int32_t>(static_cast<uint32_t>(x.bits) << 16));
}

MISSDIFF_INLINE void narrow(float x, float& y) { y = x; }
MISSDIFF_INLINE void narrow(double x, double& y) { y = x; }

// Rounds to nearest, ties to even. Every NaN becomes the quiet NaN that PyTorch writes.
MISSDIFF_INLINE void narrow(float x, Bfloat16& y) {
  const uint32_t bits = static_cast<uint32_t>(float_bits(x));
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  y.bits = static_cast<uint16_t>(x != x ? 0x7FC0u : rounded);
}

MISSDIFF_INLINE void narrow(double x, Bfloat16& y) { narrow(static_cast<float>(x), y); }

}  // namespace missdiff
