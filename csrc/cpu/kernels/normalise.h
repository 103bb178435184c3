// Layer normalisation of one row, with the epsilon of torch.nn.LayerNorm, 1e-5.
#pragma once

#include "vectors.h"

namespace missdiff::cpu {
namespace {

// Writes (h - mean) / std * gain + shift of a row and returns 1 / std. A null gain means a gain of 1 and a shift of 0.
// Sums are taken over kPanel lanes.
inline float normalise(const float* __restrict h, int64_t width, const float* __restrict gain,
                       const float* __restrict shift, float* __restrict out) {
  alignas(64) float sum[kPanel] = {}, square[kPanel] = {};
  const int64_t whole = width / kPanel * kPanel;
  for (int64_t j = 0; j < whole; j += kPanel) {
    for (int l = 0; l < kPanel; ++l) sum[l] += h[j + l];
  }
  float mean = 0.0f;
  for (int l = 0; l < kPanel; ++l) mean += sum[l];
  for (int64_t j = whole; j < width; ++j) mean += h[j];
  mean /= static_cast<float>(width);
  for (int64_t j = 0; j < whole; j += kPanel) {
    for (int l = 0; l < kPanel; ++l) square[l] += (h[j + l] - mean) * (h[j + l] - mean);
  }
  float variance = 0.0f;
  for (int l = 0; l < kPanel; ++l) variance += square[l];
  for (int64_t j = whole; j < width; ++j) variance += (h[j] - mean) * (h[j] - mean);
  // An overflowing variance gives NaN: a scale of 0 would hide that the network diverged.
  const float scale = 1.0f / square_root(variance / static_cast<float>(width) + 1e-5f) + (variance - variance);
  if (gain == nullptr) {
    for (int64_t j = 0; j < width; ++j) out[j] = (h[j] - mean) * scale;
  } else {
    for (int64_t j = 0; j < width; ++j) out[j] = (h[j] - mean) * scale * gain[j] + shift[j];
  }
  return scale;
}

// Adds to `out` the derivative with respect to h, given the derivative with respect to unit * gain + shift, where unit
// = (h - mean) / std and scale = 1 / std.
inline void normalise_back(const float* __restrict grad, const float* __restrict unit, float scale, int64_t width,
                           const float* __restrict gain, float* __restrict out) {
  const int64_t whole = width / kPanel * kPanel;
  Floats sums{}, products{};
  for (int64_t j = 0; j < whole; j += kFloats) {
    const Floats g = load_floats(grad + j) * load_floats(gain + j);
    sums += g;
    products = multiply_add(g, load_floats(unit + j), products);
  }
  float sum = sum_places(sums), product = sum_places(products);
  for (int64_t j = whole; j < width; ++j) {
    sum += grad[j] * gain[j];
    product += grad[j] * gain[j] * unit[j];
  }
  sum /= static_cast<float>(width);
  product /= static_cast<float>(width);
  for (int64_t j = 0; j < width; ++j) out[j] += scale * (grad[j] * gain[j] - sum - unit[j] * product);
}

}  // namespace
}  // namespace missdiff::cpu
