// Products of a few rows of activations with packed weights, for networks that fit in the cache.
//
// Weights are packed in panels of kPanel outputs, padded with zeros: panel[k][j] is the weight from input k to output
// j. A block of kBlock rows by kPanels panels is summed in registers, over k in order, so that a row's result depends
// on that row alone.
#pragma once

#include "vectors.h"

namespace missdiff::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int kBlock = 12;
#elif defined(__AVX2__)
constexpr int kBlock = 6;
#else
constexpr int kBlock = 3;
#endif
constexpr int kVectors = kPanel / kFloats;
constexpr int kPanels = kVectors == 1 ? 2 : 1;  // that are summed together: of narrower vectors the registers hold one
static_assert(kMlpRows % kBlock == 0, "a tile is whole blocks");

// How a product is stored: written, written after SiLU, or added to the output.
enum class Then { kWrite, kSilu, kAdd };

// Rows of activations: row i begins at data + i * stride. Stride and data are multiples of 64 bytes.
struct Rows {
  float* data;
  int64_t stride;
  float* row(int64_t i) const { return data + i * stride; }
};

// `multiply` for kCount panels, which begin with the output `first`.
template <Then kThen, int kCount>
MISSDIFF_INLINE void multiply_panels(const Rows& a, int64_t depth, const float* __restrict panel,
                                     const float* __restrict start, int64_t first, int64_t rows, const Rows& out) {
  const int64_t a_stride = a.stride, out_stride = out.stride;
  for (int64_t row = 0; row < rows; row += kBlock) {
    const float* __restrict in = a.row(row);
    float* __restrict to = out.row(row) + first;
    Floats sum[kBlock][kCount * kVectors];
    MISSDIFF_UNROLL(12)
    for (int i = 0; i < kBlock; ++i) {
      MISSDIFF_UNROLL(4)
      for (int v = 0; v < kCount * kVectors; ++v) {
        sum[i][v] = start == nullptr ? Floats{} : *reinterpret_cast<const Floats*>(start + first + v * kFloats);
      }
    }
    for (int64_t k = 0; k < depth; ++k) {
      Floats w[kCount * kVectors];
      MISSDIFF_UNROLL(4)
      for (int v = 0; v < kCount * kVectors; ++v) {
        w[v] = load_floats(panel + (v / kVectors * depth + k) * kPanel + v % kVectors * kFloats);
      }
      MISSDIFF_UNROLL(12)
      for (int i = 0; i < kBlock; ++i) {
        const Floats x = everywhere(in[i * a_stride + k]);
        MISSDIFF_UNROLL(4)
        for (int v = 0; v < kCount * kVectors; ++v) sum[i][v] = multiply_add(x, w[v], sum[i][v]);
      }
    }
    MISSDIFF_UNROLL(12)
    for (int i = 0; i < kBlock; ++i) {
      MISSDIFF_UNROLL(4)
      for (int v = 0; v < kCount * kVectors; ++v) {
        Floats* place = reinterpret_cast<Floats*>(to + i * out_stride + v * kFloats);
        if constexpr (kThen == Then::kWrite) *place = sum[i][v];
        if constexpr (kThen == Then::kSilu) *place = silu(sum[i][v]);
        if constexpr (kThen == Then::kAdd) *place = *place + sum[i][v];
      }
    }
  }
}

// out[i][j] = then(start[j] + sum_k a[i][k] w[k][j]) for `rows` rows, whole blocks of them, and whole panels of
// outputs. `start` is null for zeros.
template <Then kThen>
void multiply(const Rows& a, int64_t depth, const float* __restrict panels, const float* __restrict start,
              int64_t outputs, int64_t rows, const Rows& out) {
  int64_t first = 0;
  for (; first + (kPanels - 1) * kPanel < outputs; first += kPanels * kPanel) {
    multiply_panels<kThen, kPanels>(a, depth, panels + first * depth, start, first, rows, out);
  }
  if (first < outputs) multiply_panels<kThen, 1>(a, depth, panels + first * depth, start, first, rows, out);
}

// `accumulate` for kRows inputs of kCount panels, `apart` floats from one to the next.
template <int kRows, int kCount>
MISSDIFF_INLINE void accumulate_block(const float* __restrict a, int64_t a_stride, const float* __restrict b,
                                      int64_t b_stride, int64_t rows, bool add, float* __restrict to, int64_t apart) {
  Floats sum[kRows][kCount * kVectors];
  MISSDIFF_UNROLL(12)
  for (int i = 0; i < kRows; ++i) {
    MISSDIFF_UNROLL(4)
    for (int v = 0; v < kCount * kVectors; ++v) {
      // Gradients are written last, and lie in outer caches.
      if (v % kVectors == 0) __builtin_prefetch(to + v / kVectors * apart + i * kPanel, 1);
      sum[i][v] = Floats{};
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    Floats w[kCount * kVectors];
    MISSDIFF_UNROLL(4)
    for (int v = 0; v < kCount * kVectors; ++v) w[v] = load_floats(b + r * b_stride + v * kFloats);
    MISSDIFF_UNROLL(12)
    for (int i = 0; i < kRows; ++i) {
      const Floats x = everywhere(a[r * a_stride + i]);
      MISSDIFF_UNROLL(4)
      for (int v = 0; v < kCount * kVectors; ++v) sum[i][v] = multiply_add(x, w[v], sum[i][v]);
    }
  }
  MISSDIFF_UNROLL(12)
  for (int i = 0; i < kRows; ++i) {
    MISSDIFF_UNROLL(4)
    for (int v = 0; v < kCount * kVectors; ++v) {
      Floats* place = reinterpret_cast<Floats*>(to + v / kVectors * apart + i * kPanel + v % kVectors * kFloats);
      *place = add ? *place + sum[i][v] : sum[i][v];
    }
  }
}

template <int kRows, int kCount>
void accumulate_rest(int64_t left, const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t rows,
                     bool add, float* to, int64_t apart) {
  if (left == kRows) return accumulate_block<kRows, kCount>(a, a_stride, b, b_stride, rows, add, to, apart);
  if constexpr (kRows > 1) {
    accumulate_rest<kRows - 1, kCount>(left, a, a_stride, b, b_stride, rows, add, to, apart);
  }
}

// `accumulate` for kCount panels.
template <int kCount>
void accumulate_panels(const Rows& a, int64_t inputs, const float* b, int64_t b_stride, int64_t rows, bool add,
                       float* __restrict panel) {
  const int64_t apart = kPanel * inputs;
  int64_t k = 0;
  for (; k + kBlock <= inputs; k += kBlock) {
    accumulate_block<kBlock, kCount>(a.data + k, a.stride, b, b_stride, rows, add, panel + k * kPanel, apart);
  }
  if (k < inputs) {
    accumulate_rest<kBlock - 1, kCount>(inputs - k, a.data + k, a.stride, b, b_stride, rows, add, panel + k * kPanel,
                                        apart);
  }
}

// The gradient of weights in panels: w[k][j] (+)= sum_i a[i][k] b[i][j] over `rows` rows, in order.
inline void accumulate(const Rows& a, int64_t inputs, const Rows& b, int64_t outputs, int64_t rows, bool add,
                       float* __restrict panels) {
  int64_t first = 0;
  for (; first + (kPanels - 1) * kPanel < outputs; first += kPanels * kPanel) {
    accumulate_panels<kPanels>(a, inputs, b.data + first, b.stride, rows, add, panels + first * inputs);
  }
  if (first < outputs) {
    accumulate_panels<1>(a, inputs, b.data + first, b.stride, rows, add, panels + first * inputs);
  }
}

// Transposes panels of weights [inputs, outputs] into panels of weights [outputs, inputs].
inline void transpose(const float* __restrict panels, int64_t inputs, int64_t outputs, float* __restrict out) {
  for (int64_t first = 0; first < inputs; first += kPanel) {
    float* __restrict to = out + first * outputs;
    const int64_t n = inputs - first < kPanel ? inputs - first : kPanel;
    for (int64_t j = 0; j < outputs; ++j) {
      const float* __restrict from = panels + j / kPanel * kPanel * inputs + j % kPanel + first * kPanel;
      for (int64_t k = 0; k < n; ++k) to[j * kPanel + k] = from[k * kPanel];
      for (int64_t k = n; k < kPanel; ++k) to[j * kPanel + k] = 0.0f;
    }
  }
}

}  // namespace
}  // namespace missdiff::cpu
