#pragma once

#include "arguments.h"

namespace missdiff {

template <class Device>
struct AdamwCall {
  const Device& device;
  Tensor weights, exp_avg, exp_avg_sq, ema;  // [P]
  Tensor gradient;                           // [P]
  Tensor schedule;                           // [3]
};

template <class Device>
void adamw(Tensor weights,            // [P] as the next four
           Tensor exp_avg,            // first moments
           Tensor exp_avg_sq,         // second moments
           Tensor ema,                // moving average of the weights
           const Tensor& gradient,    //
           const Tensor& schedule) {  // [3] learning rate, number of this step from 1, decay of ema
  const Device device(weights);
  check_shape(weights, "weights", {-1});
  const int64_t size = weights.size(0);
  check_optimised(device, weights, exp_avg, exp_avg_sq, ema, size, Device::kAlignment);
  check_type(gradient, "gradient", {ScalarType::Float});
  check_shape(gradient, "gradient", {size});
  device.check(gradient, "gradient");
  const Tensor numbers = read_vector(device, schedule, "schedule", ScalarType::Double, 3);
  launch(AdamwCall<Device>{device, weights, exp_avg, exp_avg_sq, ema, device.aligned(gradient), numbers});
}

}  // namespace missdiff
