// Soft-max of groups. The exponentials of all groups of a run are computed in one long loop, since a single group is
// too short to fill a vector.
#pragma once

#include "rows.h"

namespace missdiff::cpu {
namespace {

// Writes exp(logit - the group's maximum) for every group of the run, and each group's sum.
template <class T>
inline void exponentials(const Run& run, const T* __restrict logits, T* __restrict out, T* __restrict sums) {
  for (int64_t k = 0; k < run.groups; ++k) {
    const T* __restrict in = logits + k * run.size;
    T largest = in[0];
    for (int64_t j = 1; j < run.size; ++j) largest = in[j] > largest ? in[j] : largest;
    for (int64_t j = 0; j < run.size; ++j) out[k * run.size + j] = in[j] - largest;
  }
  for (int64_t j = 0; j < run.groups * run.size; ++j) out[j] = exp_negative(out[j]);
  for (int64_t k = 0; k < run.groups; ++k) {
    const T* __restrict in = out + k * run.size;
    T sum = T(0);
    for (int64_t j = 0; j < run.size; ++j) sum += in[j];
    sums[k] = sum;
  }
}

template <class T>
inline void softmax_groups(const Columns& columns, const T* __restrict logits, T* __restrict norms, T* __restrict p) {
  for (int64_t r = 0; r < columns.num_runs; ++r) {
    const Run run = columns.runs[r];
    const T* __restrict in = logits + run.column;
    T* __restrict out = p + run.column;
    if (run.size == 2) {
      for (int64_t k = 0; k < run.groups; ++k) softmax_pair(in[2 * k + 1] - in[2 * k], out[2 * k], out[2 * k + 1]);
      continue;
    }
    exponentials(run, in, out, norms);
    for (int64_t k = 0; k < run.groups; ++k) {
      const T inverse = T(1) / norms[k];
      for (int64_t j = 0; j < run.size; ++j) out[k * run.size + j] *= inverse;
    }
  }
}

}  // namespace
}  // namespace missdiff::cpu
