// The scalar maths of one cell or of one group, host and device. exp and log are our own: calls into libm do not
// vectorise. Both are good to about 1e-7 relative.
#pragma once

#include "bfloat16.h"
#include "philox.h"

namespace missdiff {

// States of a column in a row, as in missdiff_fast/reference.py.
constexpr int32_t kHidden = 0;
constexpr int32_t kNoisy = 1;
constexpr int32_t kClean = 2;

// exp(x) for x <= 0. Below -87 it stays at exp(-87), about 1.6e-38; a NaN stays a NaN.
MISSDIFF_INLINE float exp_negative(float x) {
  x = x < -87.0f ? -87.0f : x;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
  const float shifted = x * 1.44269504088896341f + 12582912.0f;
  const uint32_t n = static_cast<uint32_t>(float_bits(shifted)) - 0x4B400000u;
  const float k = shifted - 12582912.0f;
  const float r = (x - k * 0.693359375f) - k * -2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * (r * r) + r + 1.0f;
  return y * bits_float(static_cast<int32_t>((n + 127u) << 23));
}

// log(1 + e) for e in [0, 1], as 2 atanh(e / (2 + e)); a NaN stays a NaN.
MISSDIFF_INLINE float log1p_unit(float e) {
  const float s = e / (2.0f + e);
  const float z = s * s;
  // Minimax fit of (atanh(s) / s - 1) / z on [0, 1/9]: 5e-9.
  float y = 0.14005995f;
  y = y * z + 0.14000902f;
  y = y * z + 0.20010764f;
  y = y * z + 0.33333208f;
  return 2.0f * (s + s * z * y);
}

// log(s) for a finite s >= 1; a NaN or infinity gives a NaN.
MISSDIFF_INLINE float log_sum(float s) { return log_positive(s, 0) + (s - s); }

#ifdef __CUDA_ARCH__
MISSDIFF_INLINE double exp_negative(double x) { return ::exp(x); }
MISSDIFF_INLINE double log1p_unit(double e) { return ::log1p(e); }
MISSDIFF_INLINE double log_sum(double s) { return ::log(s); }
#else
MISSDIFF_INLINE double exp_negative(double x) { return __builtin_exp(x); }
MISSDIFF_INLINE double log1p_unit(double e) { return __builtin_log1p(e); }
MISSDIFF_INLINE double log_sum(double s) { return __builtin_log(s); }
#endif

template <class T>
MISSDIFF_INLINE T absolute(T x) {
  return x < T(0) ? -x : x;
}

// x_t of one cell. x0 must be 0 where missing.
template <class T>
MISSDIFF_INLINE T perturb_cell(int32_t state, T x0, T alpha, T sigma, T eps) {
  const T noisy = alpha * x0 + sigma * eps;
  return state == kNoisy ? noisy : (state == kClean ? x0 : T(0));
}

// Softmax over a group of two, given the second logit less the first.
template <class T>
MISSDIFF_INLINE void softmax_pair(T difference, T& p0, T& p1) {
  const T e = exp_negative(-absolute(difference));
  const T large = T(1) / (T(1) + e);
  const T small = e * large;
  const bool second = difference >= T(0);
  p0 = second ? small : large;
  p1 = second ? large : small;
}

// Cross entropy of a group of two and the probability of the wrong category, given the wrong logit less the right one.
template <class T>
MISSDIFF_INLINE void cross_entropy_pair(T difference, T& loss, T& wrong) {
  const T e = exp_negative(-absolute(difference));
  const T large = T(1) / (T(1) + e);
  loss = (difference > T(0) ? difference : T(0)) + log1p_unit(e);
  wrong = difference >= T(0) ? large : e * large;
}

// What the default network's input and output are scaled by at a noise level: c_in of scores (standard deviation 1) and
// of one-hot columns (1/2), where noisy and where clean, and c_skip and c_out of Karras et al. for scores.
struct Scales {
  float number, category, skip, gain;
};
constexpr float kCleanNumber = 1.0f, kCleanCategory = 2.0f;

MISSDIFF_INLINE Scales scales_at(float sigma) {
  const float total = sigma * sigma + 1.0f;
  return {1.0f / square_root(total), 1.0f / square_root(sigma * sigma + 0.25f), 1.0f / total,
          sigma / square_root(total)};
}

// A cell as the network is shown it.
MISSDIFF_INLINE float shown_cell(int32_t state, float x, float noisy, float clean) {
  return state == kNoisy ? x * noisy : (state == kClean ? x * clean : 0.0f);
}

// The prediction of a score from the network's output.
MISSDIFF_INLINE float predicted_score(bool noisy, float x, float out, const Scales& scales) {
  return noisy ? scales.skip * x + scales.gain * out : out;
}

}  // namespace missdiff
