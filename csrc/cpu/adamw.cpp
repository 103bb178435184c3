#include "adamw.h"

#include "../calls/adamw.h"

namespace missdiff::cpu {

void launch(const AdamwCall<Device>& call) {
  const int64_t size = call.weights.size(0), whole = size / kPanel * kPanel;
  float* const flat[] = {call.weights.mutable_data_ptr<float>(), call.exp_avg.mutable_data_ptr<float>(),
                         call.exp_avg_sq.mutable_data_ptr<float>(), call.ema.mutable_data_ptr<float>()};
  const float* gradient = call.gradient.const_data_ptr<float>();
  const double* schedule = call.schedule.const_data_ptr<double>();
  run_adamw(adamw_args(gradient, 1, whole, flat[0], flat[1], flat[2], flat[3], schedule));
  if (whole == size) return;
  // The kernel works on whole panels: the rest is copied into one.
  alignas(64) float rest[5][kPanel] = {};
  for (int i = 0; i < 4; ++i) std::copy(flat[i] + whole, flat[i] + size, rest[i]);
  std::copy(gradient + whole, gradient + size, rest[4]);
  run_adamw(adamw_args(rest[4], 1, kPanel, rest[0], rest[1], rest[2], rest[3], schedule));
  for (int i = 0; i < 4; ++i) std::copy(rest[i], rest[i] + (size - whole), flat[i] + whole);
}

}  // namespace missdiff::cpu

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) {
  m.impl("adamw", TORCH_BOX(&missdiff::adamw<missdiff::cpu::Device>));
}
