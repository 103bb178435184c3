#include "loss.h"

#include "../calls/loss.h"

namespace missdiff::cpu {

void launch(const LossCall<Device>& call) {
  const BatchArgs batch = batch_args(call.batch, {0, 0});
  const int64_t blocks = num_blocks(batch.num_rows);
  std::vector<double> partials(static_cast<size_t>(blocks));
  const double scale = 1.0 / static_cast<double>(count(batch, false));
  const LossArgs args{batch,
                      type_of(call.prediction),
                      call.prediction.const_data_ptr(),
                      call.weight.const_data_ptr(),
                      data_or_null(call.column_weight),
                      call.mean_weight,
                      scale,
                      call.grad.mutable_data_ptr(),
                      partials.data()};
  check_codes(run(kernels().loss, args, blocks, grain_of(kLossBlock * call.prediction.size(1))));
  write_loss(partials, scale, call.loss);
}

void launch(const NoiseLossCall<Device>& call) {
  const BatchArgs batch = batch_args(call.batch, call.key);
  const int64_t blocks = num_blocks(batch.num_rows);
  std::vector<double> partials(static_cast<size_t>(blocks));
  const double scale = 1.0 / static_cast<double>(count(batch, true));
  const NoiseLossArgs args{batch, type_of(call.prediction),     call.prediction.const_data_ptr(),
                           scale, call.grad.mutable_data_ptr(), partials.data()};
  run(kernels().noise_loss, args, blocks, grain_of(kLossBlock * call.prediction.size(1)));
  write_loss(partials, scale, call.loss);
}

}  // namespace missdiff::cpu

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) {
  m.impl("masked_loss", TORCH_BOX(&missdiff::masked_loss<missdiff::cpu::Device>));
  m.impl("masked_noise_loss", TORCH_BOX(&missdiff::masked_noise_loss<missdiff::cpu::Device>));
}
