#include <algorithm>

#include "update.h"

namespace missdiff {
namespace {

float* read_flat(Tensor& t, const char* name, int64_t size) {
  check_type(t, name, {ScalarType::Float});
  check_shape(t, name, {size});
  STD_TORCH_CHECK(t.is_contiguous(), name, " must be contiguous");
  return t.mutable_data_ptr<float>();
}

void adamw(Tensor weights,            // [P] as the next four
           Tensor mean,               // first moments
           Tensor square,             // second moments
           Tensor average,            // moving average of the weights
           const Tensor& gradient,    //
           const Tensor& schedule) {  // [3] learning rate, number of this step from 1, decay of the average
  check_shape(weights, "weights", {-1});
  const int64_t size = weights.size(0), whole = size / kPanel * kPanel;
  float* flat[] = {read_flat(weights, "weights", size), read_flat(mean, "mean", size),
                   read_flat(square, "square", size), read_flat(average, "average", size)};
  check_apart({flat[0], flat[1], flat[2], flat[3]}, size);
  check_type(gradient, "gradient", {ScalarType::Float});
  check_shape(gradient, "gradient", {size});
  check_type(schedule, "schedule", {ScalarType::Double});
  check_shape(schedule, "schedule", {3});
  const Tensor gradient_ = torch::stable::contiguous(gradient), schedule_ = torch::stable::contiguous(schedule);
  const float* from = gradient_.const_data_ptr<float>();
  const double* numbers = schedule_.const_data_ptr<double>();
  update(update_args(from, 1, whole, flat[0], flat[1], flat[2], flat[3], numbers));
  if (whole == size) return;
  // The kernel works on whole panels: the rest is brought to one.
  alignas(64) float rest[5][kPanel] = {};
  for (int i = 0; i < 4; ++i) std::copy(flat[i] + whole, flat[i] + size, rest[i]);
  std::copy(from + whole, from + size, rest[4]);
  update(update_args(rest[4], 1, kPanel, rest[0], rest[1], rest[2], rest[3], numbers));
  for (int i = 0; i < 4; ++i) std::copy(rest[i], rest[i] + (size - whole), flat[i] + whole);
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) { m.impl("adamw", TORCH_BOX(&missdiff::adamw)); }
