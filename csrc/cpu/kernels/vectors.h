// Vectors as wide as the instruction set's registers, and functions of them for the network's kernels.
#pragma once

#include "rows.h"

namespace missdiff::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kFloats = 16;
#elif defined(__AVX2__)
constexpr int kFloats = 8;
#else
constexpr int kFloats = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * kFloats), aligned(4 * kFloats), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * kFloats)));

// a * b + c, rounded once on AVX2 and AVX-512.
MISSDIFF_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
  return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

// x in every element. Adding x to zeros instead would turn -0 into 0, and compilers keep that addition.
MISSDIFF_INLINE Floats everywhere(float x) {
#if defined(__AVX512F__)
  return (Floats)_mm512_set1_ps(x);
#elif defined(__AVX2__)
  return (Floats)_mm256_set1_ps(x);
#elif defined(__x86_64__)
  return (Floats)_mm_set1_ps(x);
#else
  return Floats{x, x, x, x};
#endif
}

MISSDIFF_INLINE Floats load_floats(const float* from) { return *reinterpret_cast<const Floats*>(from); }

// Sum of all elements. Adding in pairs shortens the dependency chain.
MISSDIFF_INLINE float sum_places(Floats x) {
  float sums[kFloats];
  for (int l = 0; l < kFloats; ++l) sums[l] = x[l];
  for (int half = kFloats / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

// exp(x), with x clamped to [-87, 87], by the polynomial of `exp_negative`. NaN gives NaN.
MISSDIFF_INLINE Floats exponential(Floats x) {
  const Floats most = everywhere(87.0f), shift = everywhere(12582912.0f);
  x = x > most ? most : x;
  x = x < -most ? -most : x;
  const Floats shifted = multiply_add(x, everywhere(1.44269504088896341f), shift);
  const Ints n = (Ints)shifted - 0x4B400000;
  const Floats k = shifted - shift;
  const Floats r = multiply_add(k, everywhere(2.12194440e-4f), multiply_add(k, everywhere(-0.693359375f), x));
  Floats y = everywhere(1.9875691500e-4f);
  y = multiply_add(y, r, everywhere(1.3981999507e-3f));
  y = multiply_add(y, r, everywhere(8.3334519073e-3f));
  y = multiply_add(y, r, everywhere(4.1665795894e-2f));
  y = multiply_add(y, r, everywhere(1.6666665459e-1f));
  y = multiply_add(y, r, everywhere(5.0000001201e-1f));
  y = multiply_add(y, r * r, r + 1.0f);
  return y * (Floats)((n + 127) << 23);
}

MISSDIFF_INLINE Floats logistic(Floats x) { return 1.0f / (1.0f + exponential(-x)); }

// SiLU: x times the logistic function of x.
MISSDIFF_INLINE Floats silu(Floats x) { return x / (1.0f + exponential(-x)); }

// SiLU and its derivative.
MISSDIFF_INLINE Floats silu(Floats x, Floats& slope) {
  const Floats share = logistic(x);
  slope = share * multiply_add(x, 1.0f - share, everywhere(1.0f));
  return x * share;
}

}  // namespace
}  // namespace missdiff::cpu
