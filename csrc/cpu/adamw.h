// AdamW without weight decay on flat weights, and their moving average.
#pragma once

#include <cmath>

#include "device.h"

namespace missdiff::cpu {

// `schedule` holds the learning rate, the number of this step from 1, and the decay of ema.
inline AdamwArgs adamw_args(const float* gradients, int64_t buffers, int64_t size, float* weights, float* exp_avg,
                            float* exp_avg_sq, float* ema, const double* schedule) {
  STD_TORCH_CHECK(schedule[1] >= 1.0, "schedule must number the steps from 1");
  const double root = std::sqrt(1.0 - std::pow(kBeta2, schedule[1]));
  return {gradients,
          buffers,
          size,
          weights,
          exp_avg,
          exp_avg_sq,
          ema,
          adamw_factors(schedule[0], 1.0 - std::pow(kBeta1, schedule[1]), static_cast<float>(root), schedule[2])};
}

// The number of weights must be whole panels.
inline void run_adamw(const AdamwArgs& args) {
  run(kernels().adamw, args, (args.num_weights + kUpdateBlock - 1) / kUpdateBlock, 4);
}

}  // namespace missdiff::cpu
