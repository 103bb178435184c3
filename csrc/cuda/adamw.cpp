#include "kernels/adamw.h"

#include "../apart.h"
#include "launch.h"

namespace missdiff {
namespace {

float* read_flat(const Tensor& first, Tensor& t, const char* name) {
  check_type(t, name, {ScalarType::Float});
  check_shape(t, name, {first.size(0)});
  check_device(first, t, name);
  STD_TORCH_CHECK(t.is_contiguous(), name, " must be contiguous");
  STD_TORCH_CHECK(reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 16 == 0, name, " must be aligned to 16 bytes");
  return data<float>(t);
}

void adamw(Tensor weights,            // [P] as the next four
           Tensor mean,               // first moments
           Tensor square,             // second moments
           Tensor average,            // moving average of the weights
           const Tensor& gradient,    //
           const Tensor& schedule) {  // [3] learning rate, number of this step from 1, decay of the average
  const Device device(weights);
  check_shape(weights, "weights", {-1});
  Adamw::Args args;
  args.size = weights.size(0);
  args.weights = read_flat(weights, weights, "weights");
  args.mean = read_flat(weights, mean, "mean");
  args.square = read_flat(weights, square, "square");
  args.average = read_flat(weights, average, "average");
  check_apart({args.weights, args.mean, args.square, args.average}, args.size);
  check_type(gradient, "gradient", {ScalarType::Float});
  check_shape(gradient, "gradient", {args.size});
  check_device(weights, gradient, "gradient");
  const Tensor given = packed(gradient);
  const Tensor numbers = read_vector(weights, schedule, "schedule", ScalarType::Double, 3);
  args.gradient = data<float>(given);
  args.schedule = data<double>(numbers);
  device.launch<Adamw>(args, Adamw::num_blocks(args.size));
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) { m.impl("adamw", TORCH_BOX(&missdiff::adamw)); }
