#pragma once

#include "arguments.h"

namespace missdiff {

template <class Device>
struct AdamwCall {
  const Device& device;
  Tensor weights, mean, square, average;  // [P]
  Tensor gradient;                        // [P]
  Tensor schedule;                        // [3]
};

template <class Device>
void adamw(Tensor weights,            // [P] as the next four
           Tensor mean,               // first moments
           Tensor square,             // second moments
           Tensor average,            // moving average of the weights
           const Tensor& gradient,    //
           const Tensor& schedule) {  // [3] learning rate, number of this step from 1, decay of the average
  const Device device(weights);
  check_shape(weights, "weights", {-1});
  const int64_t size = weights.size(0);
  const char* const names[] = {"weights", "mean", "square", "average"};
  const Tensor* const arrays[] = {&weights, &mean, &square, &average};
  for (int i = 0; i < 4; ++i) {
    check_flat(device, *arrays[i], names[i], size);
    check_alignment(*arrays[i], names[i], Device::kAlignment);
  }
  check_apart({&weights, &mean, &square, &average});
  check_type(gradient, "gradient", {ScalarType::Float});
  check_shape(gradient, "gradient", {size});
  device.check(gradient, "gradient");
  const Tensor numbers = read_vector(device, schedule, "schedule", ScalarType::Double, 3);
  launch(AdamwCall<Device>{device, weights, mean, square, average, device.aligned(gradient), numbers});
}

}  // namespace missdiff
