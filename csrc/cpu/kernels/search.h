// Binary search of many numbers in one ascending array.
#pragma once

#include <cstdint>

namespace missdiff::cpu {
namespace {

// For each of n numbers x, the number of ascending boundaries that are at most x. NaN counts as above all.
template <class T>
void search(const T* __restrict boundaries, int64_t size, const T* __restrict x, int64_t n, int32_t* __restrict place) {
  for (int64_t i = 0; i < n; ++i) place[i] = 0;
  if (size == 0) return;
  // All searches take the same steps, without branches, so that their loads overlap.
  int32_t left = static_cast<int32_t>(size);
  while (left > 1) {
    const int32_t half = left / 2;
    for (int64_t i = 0; i < n; ++i) place[i] += boundaries[place[i] + half - 1] > x[i] ? 0 : half;
    left -= half;
  }
  for (int64_t i = 0; i < n; ++i) place[i] += boundaries[place[i]] > x[i] ? 0 : 1;
}

}  // namespace
}  // namespace missdiff::cpu
