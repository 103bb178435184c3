#include "../calls/step.h"

#include "device.h"

namespace missdiff::cpu {

void launch(const StepCall<Device>& call) {
  StepArgs args{call.columns.get(),
                type_of(call.x),
                type_of(call.prediction),
                call.x.const_data_ptr(),
                call.prediction.const_data_ptr(),
                call.prediction.size(1),
                data_or_null(call.previous),
                call.states.const_data_ptr<uint8_t>(),
                {},
                call.rows.const_data_ptr<int64_t>(),
                call.key.seed,
                call.key.step,
                call.softmax,
                call.next.mutable_data_ptr(),
                call.p.mutable_data_ptr()};
  for (int i = 0; i < 4; ++i) {
    args.coefficients[i] = args.type == Type::kDouble ? call.coefficients.const_data_ptr<double>()[i]
                                                      : call.coefficients.const_data_ptr<float>()[i];
  }
  run(kernels().step, args, call.x.size(0), grain_of(call.x.size(1)));
}

}  // namespace missdiff::cpu

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) { m.impl("step", TORCH_BOX(&missdiff::step<missdiff::cpu::Device>)); }
