#include "../calls/random.h"

#include "device.h"

namespace missdiff::cpu {

void launch(const RandomCall<Device>& call) {
  const RandomArgs args{call.rows.const_data_ptr<int64_t>(), call.columns, call.key.seed, call.key.step, call.normal,
                        call.out.mutable_data_ptr<float>()};
  run(kernels().random, args, call.rows.size(0), grain_of(call.columns));
}

}  // namespace missdiff::cpu

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) {
  m.impl("uniform", TORCH_BOX(&missdiff::uniform<missdiff::cpu::Device>));
  m.impl("normal", TORCH_BOX(&missdiff::normal<missdiff::cpu::Device>));
}
