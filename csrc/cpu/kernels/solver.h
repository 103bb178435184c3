// The solver's step of a row.
#pragma once

#include "rows.h"

namespace missdiff::cpu {
namespace {

template <bool kPrevious, bool kNoise, class T>
MISSDIFF_INLINE void step_cells(const StepCoefficients<T>& coefficients, const int32_t* __restrict state, const T* x,
                                const T* __restrict p, const T* __restrict previous, const float* __restrict eps,
                                int64_t n, T* next) {
  const StepCoefficients<T> c = coefficients;
  MISSDIFF_INDEPENDENT
  for (int64_t d = 0; d < n; ++d) {
    next[d] = step_cell(c, kPrevious, kNoise, x[d], p[d], kPrevious ? previous[d] : T(0),
                        kNoise ? static_cast<T>(eps[d]) : T(0), state[d]);
  }
}

// `next` may be x; `previous` and `eps` are null where the step is without them.
template <class T>
inline void step_row(const StepCoefficients<T>& coefficients, const int32_t* state, const T* x, const T* p,
                     const T* previous, const float* eps, int64_t n, T* next) {
  if (previous != nullptr && eps != nullptr) {
    step_cells<true, true>(coefficients, state, x, p, previous, eps, n, next);
  } else if (previous != nullptr) {
    step_cells<true, false>(coefficients, state, x, p, previous, eps, n, next);
  } else if (eps != nullptr) {
    step_cells<false, true>(coefficients, state, x, p, previous, eps, n, next);
  } else {
    step_cells<false, false>(coefficients, state, x, p, previous, eps, n, next);
  }
}

}  // namespace
}  // namespace missdiff::cpu
