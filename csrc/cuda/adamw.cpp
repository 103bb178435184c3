#include "kernels/adamw.h"

#include "../calls/adamw.h"
#include "device.h"

namespace missdiff::cuda {

void launch(const AdamwCall<Device>& call) {
  const int64_t size = call.weights.size(0);
  call.device.start<Adamw>(
      {mutable_data<float>(call.weights), mutable_data<float>(call.exp_avg), mutable_data<float>(call.exp_avg_sq),
       mutable_data<float>(call.ema), data<float>(call.gradient), data<double>(call.schedule), size},
      Adamw::num_blocks(size));
}

}  // namespace missdiff::cuda

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("adamw", TORCH_BOX(&missdiff::adamw<missdiff::cuda::Device>));
}
