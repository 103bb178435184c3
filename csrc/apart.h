// A check for ops that change several arrays in place.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <vector>

#include "checks.h"

namespace missdiff {

// What a step of training changes, each of so many numbers.
inline void check_apart(std::initializer_list<const float*> flat, int64_t size) {
  std::vector<const float*> places(flat);
  std::sort(places.begin(), places.end(), std::less<>());
  for (size_t i = 1; i < places.size(); ++i) {
    STD_TORCH_CHECK(size == 0 || places[i - 1] + size <= places[i],
                    "weights, mean, square and average must not share memory");
  }
}

}  // namespace missdiff
