// The standard normal's quantile function, as in Cephes (Moshier) and with PyTorch's order of operations, so that
// float64 results are PyTorch's own wherever both have fused multiply-add.
#pragma once

#include "macros.h"

namespace missdiff {

constexpr double kTail = 0.13533528323661269189;  // exp(-2): where the tails begin

// a * b + c, rounded once where the instruction set has fused multiply-add.
MISSDIFF_INLINE double multiply_add(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return __fma_rn(a, b, c);
#elif defined(__FMA__) || defined(__AVX512F__)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <int n>
MISSDIFF_INLINE double polynomial(double x, const double (&coefficients)[n]) {
  double sum = coefficients[0];
  MISSDIFF_UNROLL(8)
  for (int i = 1; i < n; ++i) sum = multiply_add(sum, x, coefficients[i]);
  return sum;
}

// For u in [kTail, 1 - kTail].
MISSDIFF_INLINE double normal_quantile_middle(double u) {
  constexpr double above[] = {-5.99633501014107895267e1, 9.80010754185999661536e1, -5.66762857469070293439e1,
                              1.39312609387279679503e1, -1.23916583867381258016e0};
  constexpr double below[] = {1.0,
                              1.95448858338141759834e0,
                              4.67627912898881538453e0,
                              8.63602421390890590575e1,
                              -2.25462687854119370527e2,
                              2.00260212380060660359e2,
                              -8.20372256168333339912e1,
                              1.59056225126211695515e1,
                              -1.18331621121330003142e0};
  const double y = u - 0.5, y2 = y * y;
  return multiply_add(y, y2 * polynomial(y2, above) / polynomial(y2, below), y) * 2.50662827463100050242e0;
}

// Quantile of u in the upper tail, given x = sqrt(-2 log(1 - u)) below 8, that is 1 - u above 1.3e-14, and log(x).
MISSDIFF_INLINE double normal_quantile_tail(double x, double log_x) {
  constexpr double above[] = {4.05544892305962419923e0,   3.15251094599893866154e1,   5.71628192246421288162e1,
                              4.40805073893200834700e1,   1.46849561928858024014e1,   2.18663306850790267539e0,
                              -1.40256079171354495875e-1, -3.50424626827848203418e-2, -8.57456785154685413611e-4};
  constexpr double below[] = {1.0,
                              1.57799883256466749731e1,
                              4.53907635128879210584e1,
                              4.13172038254672030440e1,
                              1.50425385692907503408e1,
                              2.50464946208309415979e0,
                              -1.42182922854787788574e-1,
                              -3.80806407691578277194e-2,
                              -9.33259480895457427372e-4};
  const double z = 1.0 / x;
  return (x - log_x / x) - z * polynomial(z, above) / polynomial(z, below);
}

// The same for x of at least 8; infinite at u = 1.
MISSDIFF_INLINE double normal_quantile_far(double x, double log_x) {
  constexpr double above[] = {3.23774891776946035970e0,  6.91522889068984211695e0,  3.93881025292474443415e0,
                              1.33303460815807542389e0,  2.01485389549179081538e-1, 1.23716634817820021358e-2,
                              3.01581553508235416007e-4, 2.65806974686737550832e-6, 6.23974539184983293730e-9};
  constexpr double below[] = {1.0,
                              6.02427039364742014255e0,
                              3.67983563856160859403e0,
                              1.37702099489081330271e0,
                              2.16236993594496635890e-1,
                              1.34204006088543189037e-2,
                              3.28014464682127739104e-4,
                              2.89247864745380683936e-6,
                              6.79019408009981274425e-9};
  if (x == __builtin_inf()) return x;
  const double z = 1.0 / x;
  return (x - log_x / x) - z * polynomial(z, above) / polynomial(z, below);
}

}  // namespace missdiff
