// Scalar functions of one cell or one group, for host and device. exp and log are written out, since calls into libm do
// not vectorise; their relative error is about 1e-7.
#pragma once

#include "bfloat16.h"
#include "philox.h"

namespace missdiff {

// States of a column in a row, as in missdiff_fast.diffusion.states.
constexpr int32_t kHidden = 0;
constexpr int32_t kNoisy = 1;
constexpr int32_t kClean = 2;

// exp(x) for x <= 0, and exp(-87), about 1.6e-38, below -87. NaN gives NaN.
MISSDIFF_INLINE float exp_negative(float x) {
  x = x < -87.0f ? -87.0f : x;
  // Adding 1.5 * 2^23 rounds to an integer, held in the low bits.
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

// log(1 + e) for e in [0, 1], as 2 atanh(e / (2 + e)). NaN gives NaN.
MISSDIFF_INLINE float log1p_unit(float e) {
  const float s = e / (2.0f + e);
  const float z = s * s;
  // Minimax fit of (atanh(s) / s - 1) / z on [0, 1/9], with an error of 5e-9.
  float y = 0.14005995f;
  y = y * z + 0.14000902f;
  y = y * z + 0.20010764f;
  y = y * z + 0.33333208f;
  return 2.0f * (s + s * z * y);
}

// log(s) for a finite s >= 1. NaN and infinity give NaN.
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
  const T large = divide_plainly(T(1), T(1) + e);
  const T small = e * large;
  const bool second = difference >= T(0);
  p0 = second ? small : large;
  p1 = second ? large : small;
}

// Cross entropy of a group of two and the probability of the wrong category, given the wrong logit less the right one.
template <class T>
MISSDIFF_INLINE void cross_entropy_pair(T difference, T& loss, T& wrong) {
  const T e = exp_negative(-absolute(difference));
  const T large = divide_plainly(T(1), T(1) + e);
  loss = (difference > T(0) ? difference : T(0)) + log1p_unit(e);
  wrong = difference >= T(0) ? large : e * large;
}

// Squared errors of a score and of its mean prediction, weighted, and their derivatives times `factor`.
template <class T>
MISSDIFF_INLINE void score_loss(T error, T mean_error, T weight, T mean_weight, T factor, T& loss, T& grad,
                                T& mean_grad) {
  loss = weight * (error * error) + mean_weight * (mean_error * mean_error);
  grad = factor * weight * error;
  mean_grad = factor * mean_weight * mean_error;
}

// Cross entropy of a group of two, given the second logit less the first, and its derivative with respect to the second
// logit times `factor`; that with respect to the first is the negative. `second` tells the cell's category.
template <class T>
MISSDIFF_INLINE void pair_loss(T difference, bool second, T factor, T& loss, T& grad) {
  T wrong;
  cross_entropy_pair(second ? -difference : difference, loss, wrong);
  grad = (second ? -wrong : wrong) * factor;
}

// Squared error of predicted noise, and its derivative times `factor` / 2; both 0 where the cell is not active.
template <class T>
MISSDIFF_INLINE void noise_loss(bool active, T predicted, T eps, T factor, T& loss, T& grad) {
  const T error = predicted - eps;
  loss = active ? error * error : T(0);
  grad = active ? factor * error : T(0);
}

// Coefficients of one solver step.
template <class T>
struct StepCoefficients {
  T x, p, previous, noise;
};

// A noisy cell after a solver step, with or without the last two terms. CUDA's `Step` calls it and reads the state
// afterwards: as an argument of `step_cell` the state would hold a register meanwhile, and more doubles would spill.
template <class T>
MISSDIFF_INLINE T step_noisy_cell(const StepCoefficients<T>& c, bool has_previous, bool has_noise, T x, T p, T previous,
                                  T eps) {
  T next = c.x * x + c.p * p;
  if (has_previous) next = next + c.previous * previous;
  if (has_noise) next = next + c.noise * eps;
  return next;
}

// Any cell after a solver step. Clean cells stay.
template <class T>
MISSDIFF_INLINE T step_cell(const StepCoefficients<T>& c, bool has_previous, bool has_noise, T x, T p, T previous,
                            T eps, int32_t state) {
  const T next = step_noisy_cell(c, has_previous, has_noise, x, p, previous, eps);
  return state == kClean ? x : next;
}

// The first of the largest numbers of a group. A group with a NaN has none: the result is its size.
template <class T>
MISSDIFF_INLINE int32_t argmax_group(const T* x, int32_t size) {
  T largest = x[0];
  int32_t index = 0;
  bool nan = x[0] != x[0];
  for (int32_t j = 1; j < size; ++j) {
    const T cell = x[j];
    nan |= cell != cell;
    index = cell > largest ? j : index;
    largest = cell > largest ? cell : largest;
  }
  return nan ? size : index;
}

// AdamW with PyTorch's betas and epsilon, without weight decay.
constexpr double kBeta1 = 0.9, kBeta2 = 0.999;
constexpr double kAdamwEpsilon = 1e-8;

// Factors that all weights of a step share.
struct AdamwFactors {
  float keep1;       // 1 - beta1
  float beta2;       //
  float keep2;       // 1 - beta2
  float step;        // learning rate / (1 - beta1^t)
  float root;        // sqrt(1 - beta2^t)
  float ema_weight;  // 1 - decay
};

MISSDIFF_INLINE AdamwFactors adamw_factors(double rate, double correction1, float root, double decay) {
  return {static_cast<float>(1.0 - kBeta1),
          static_cast<float>(kBeta2),
          static_cast<float>(1.0 - kBeta2),
          static_cast<float>(rate / correction1),
          root,
          static_cast<float>(1.0 - decay)};
}

// Updates a weight, its moments and its moving average.
MISSDIFF_INLINE void adamw_weight(const AdamwFactors& factors, float gradient, float& weight, float& exp_avg,
                                  float& exp_avg_sq, float& ema) {
  constexpr float kEpsilon = static_cast<float>(kAdamwEpsilon);
  exp_avg += factors.keep1 * (gradient - exp_avg);
  exp_avg_sq = factors.beta2 * exp_avg_sq + factors.keep2 * gradient * gradient;
  weight -= factors.step * exp_avg / (square_root(exp_avg_sq) / factors.root + kEpsilon);
  ema += factors.ema_weight * (weight - ema);
}

// Scales of the default network at a noise level. The network sees a noisy cell as its best linear estimate, in
// standard deviations, which are 1 for scores and 1/2 for one-hot columns. For scores this is c_skip of Karras et al.,
// and `gain` is c_out. Clean cells have scales of their own.
struct Scales {
  float number, category, gain;
};
constexpr float kCleanNumber = 1.0f, kCleanCategory = 2.0f;

MISSDIFF_INLINE Scales scales_at(float sigma) {
  const float total = sigma * sigma + 1.0f;
  return {1.0f / total, 0.5f / (sigma * sigma + 0.25f), sigma / square_root(total)};
}

// The network's input for a cell.
MISSDIFF_INLINE float shown_cell(int32_t state, float x, float noisy, float clean) {
  return state == kNoisy ? x * noisy : (state == kClean ? x * clean : 0.0f);
}

// Predicted score, from the network's output.
MISSDIFF_INLINE float predicted_score(bool noisy, float x, float out, const Scales& scales) {
  return noisy ? scales.number * x + scales.gain * out : out;
}

}  // namespace missdiff
