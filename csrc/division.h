// Division that a card does without the branch for operands near the ends of float32's range.
#pragma once

#include "macros.h"

namespace missdiff {

// x / divisor from an approximate reciprocal. It is correctly rounded for any reciprocal within 2 units in the last
// place, where x is 1 and the divisor from 1 to 2, and for the x of `log_ratio`: tests/test_cuda_host.py tries all.
// Rounding the better reciprocal upwards makes it right for the divisor 2 - 2^-23 too, where 1/2 is as near.
MISSDIFF_INLINE float divide_from(float x, float divisor, float reciprocal) {
  const float error = fused_multiply_add(-divisor, reciprocal, 1.0f);
  const float inverse = fused_multiply_add_up(error, reciprocal, reciprocal);
  const float ratio = x * inverse;
  return fused_multiply_add(fused_multiply_add(-divisor, ratio, x), inverse, ratio);
}

// x / divisor for the operands of `divide_from`. NaN gives NaN.
MISSDIFF_INLINE float divide_plainly(float x, float divisor) {
#ifdef __CUDA_ARCH__
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(divisor));
  return divide_from(x, divisor, reciprocal);
#else
  return x / divisor;
#endif
}
MISSDIFF_INLINE double divide_plainly(double x, double divisor) { return x / divisor; }

}  // namespace missdiff
