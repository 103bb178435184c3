// Products of a few rows of activations with packed weights, for whole networks that stay in the cache.
//
// Weights are packed in panels of kPanel outputs: panel[k][j] is the weight from input k to output j, and the outputs
// beyond the last are 0. A block of kBlock rows by one panel is summed in registers, over k in order, whatever the
// number of rows: a row's result depends on that row alone.
#pragma once

#include "rows.h"

namespace missdiff {
namespace {

#if defined(__AVX512F__)
constexpr int kFloats = 16;
constexpr int kBlock = 12;
#elif defined(__AVX2__)
constexpr int kFloats = 8;
constexpr int kBlock = 6;
#else
constexpr int kFloats = 4;
constexpr int kBlock = 3;
#endif
constexpr int kVectors = kPanel / kFloats;
static_assert(kMlpRows % kBlock == 0, "a tile is whole blocks");

typedef float Floats __attribute__((vector_size(4 * kFloats), aligned(4 * kFloats), may_alias));

// a * b + c, in one rounding on AVX2 and AVX-512.
MISSDIFF_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
  return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

// x in every place. (Adding it to zeros would turn -0 into 0, so that compilers do keep the addition.)
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

// What becomes of a product: written, written after SiLU, or added to what is there.
enum class Then { kWrite, kSilu, kAdd };

// out[i][j] = then(start[j] + sum_k a[i][k] w[k][j]) for kMlpRows rows. All pointers and strides are multiples of 64
// bytes but a's, and `out` has room for whole panels. `start` is null for zeros.
template <Then kThen>
void multiply(const float* __restrict a, int64_t a_stride, int64_t depth, const float* __restrict panels,
              const float* __restrict start, int64_t outputs, float* __restrict out, int64_t out_stride) {
  for (int64_t first = 0; first < outputs; first += kPanel) {
    const float* __restrict panel = panels + first * depth;
    for (int64_t row = 0; row < kMlpRows; row += kBlock) {
      const float* __restrict in = a + row * a_stride;
      float* __restrict to = out + row * out_stride + first;
      Floats sum[kBlock][kVectors];
      MISSDIFF_UNROLL(12)
      for (int i = 0; i < kBlock; ++i) {
        MISSDIFF_UNROLL(4)
        for (int v = 0; v < kVectors; ++v) {
          sum[i][v] = start == nullptr ? Floats{} : *reinterpret_cast<const Floats*>(start + first + v * kFloats);
        }
      }
      for (int64_t k = 0; k < depth; ++k) {
        Floats w[kVectors];
        MISSDIFF_UNROLL(4)
        for (int v = 0; v < kVectors; ++v) {
          w[v] = *reinterpret_cast<const Floats*>(panel + k * kPanel + v * kFloats);
        }
        MISSDIFF_UNROLL(12)
        for (int i = 0; i < kBlock; ++i) {
          const Floats x = everywhere(in[i * a_stride + k]);
          MISSDIFF_UNROLL(4)
          for (int v = 0; v < kVectors; ++v) sum[i][v] = multiply_add(x, w[v], sum[i][v]);
        }
      }
      MISSDIFF_UNROLL(12)
      for (int i = 0; i < kBlock; ++i) {
        MISSDIFF_UNROLL(4)
        for (int v = 0; v < kVectors; ++v) {
          Floats* place = reinterpret_cast<Floats*>(to + i * out_stride + v * kFloats);
          *place = kThen == Then::kAdd ? *place + sum[i][v] : sum[i][v];
        }
      }
      if (kThen != Then::kSilu) continue;
      for (int i = 0; i < kBlock; ++i) {
        float* __restrict cell = to + i * out_stride;
        for (int j = 0; j < kPanel; ++j) cell[j] = silu(cell[j]);
      }
    }
  }
}

}  // namespace
}  // namespace missdiff
