// Argument checks. Python checks first, with better messages; these checks protect memory when an op is called
// directly.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <initializer_list>

namespace missdiff {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

inline void check_type(const Tensor& t, const char* name, std::initializer_list<ScalarType> allowed) {
  for (ScalarType type : allowed) {
    if (t.scalar_type() == type) return;
  }
  STD_TORCH_CHECK(false, name, " has dtype ", torch::headeronly::toString(t.scalar_type()), ", which is not accepted");
}

// A size of -1 matches any.
inline void check_shape(const Tensor& t, const char* name, std::initializer_list<int64_t> shape) {
  STD_TORCH_CHECK(t.dim() == static_cast<int64_t>(shape.size()), name, " has ", t.dim(), " dimensions, not ",
                  shape.size());
  int64_t d = 0;
  for (int64_t size : shape) {
    STD_TORCH_CHECK(size < 0 || t.size(d) == size, name, " has size ", t.size(d), " in dimension ", d, ", not ", size);
    ++d;
  }
}

inline void check_rows(const int64_t* rows, int64_t n, int64_t stored) {
  int64_t smallest = 0, largest = -1;
  for (int64_t i = 0; i < n; ++i) {
    smallest = rows[i] < smallest ? rows[i] : smallest;
    largest = rows[i] > largest ? rows[i] : largest;
  }
  STD_TORCH_CHECK(smallest >= 0 && largest < stored, "rows must be in [0, ", stored, "), but hold ",
                  smallest < 0 ? smallest : largest);
}

inline void check_codes(bool good) {
  STD_TORCH_CHECK(good, "codes hold a category that is not below its column's cardinality");
}

}  // namespace missdiff
