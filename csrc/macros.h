// Macros and bit casts of the scalar headers, for host and CUDA compilers.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define MISSDIFF_MEMBER __host__ __device__ __forceinline__
#else
#define MISSDIFF_MEMBER inline __attribute__((always_inline))
#endif
#define MISSDIFF_INLINE static MISSDIFF_MEMBER

#define MISSDIFF_PRAGMA(x) _Pragma(#x)
#if defined(__CUDACC__) || defined(__clang__)
#define MISSDIFF_UNROLL(n) MISSDIFF_PRAGMA(unroll n)
#else
#define MISSDIFF_UNROLL(n) MISSDIFF_PRAGMA(GCC unroll n)
#endif
// Before a loop whose iterations are independent, although it may write to the array that it reads.
#if defined(__CUDACC__)
#define MISSDIFF_INDEPENDENT
#elif defined(__clang__)
#define MISSDIFF_INDEPENDENT MISSDIFF_PRAGMA(clang loop vectorize(assume_safety))
#else
#define MISSDIFF_INDEPENDENT MISSDIFF_PRAGMA(GCC ivdep)
#endif
// Before a loop whose trip count is a template argument and whose arrays must stay in registers on a GPU.
#ifdef __CUDACC__
#define MISSDIFF_UNROLL_ALL MISSDIFF_PRAGMA(unroll)
#else
#define MISSDIFF_UNROLL_ALL
#endif

namespace missdiff {

MISSDIFF_INLINE int32_t float_bits(float x) {
  int32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

MISSDIFF_INLINE float bits_float(int32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

MISSDIFF_INLINE float square_root(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

// a * b + c in one rounding.
MISSDIFF_INLINE float fused_multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

// The same, rounded upwards, for numbers of like size.
MISSDIFF_INLINE float fused_multiply_add_up(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_ru(a, b, c);
#else
  const float nearest = __builtin_fmaf(a, b, c);
  const double left = static_cast<double>(a) * b + (static_cast<double>(c) - nearest);
  return left > 0.0 ? __builtin_nextafterf(nearest, __builtin_inff()) : nearest;
#endif
}

}  // namespace missdiff
