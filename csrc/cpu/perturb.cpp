#include "../calls/perturb.h"

#include "device.h"

namespace missdiff::cpu {

void launch(const PerturbCall<Device>& call) {
  const PerturbArgs args{
      batch_args(call.batch, call.key), call.alpha.const_data_ptr(), call.sigma.const_data_ptr(), call.low, call.high,
      call.out.mutable_data_ptr()};
  check_codes(run(kernels().perturb, args, call.batch.num_rows(), grain_of(call.out.size(1))));
}

}  // namespace missdiff::cpu

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) {
  m.impl("perturb", TORCH_BOX(&missdiff::perturb<missdiff::cpu::Device>));
}
