#include "kernels/mlp_ends.h"

#include "../calls/mlp_ends.h"
#include "device.h"

namespace missdiff::cuda {

void launch(const MlpInputCall<Device>& call) {
  call.device.start<MlpInput>(
      {batch_of<float>(call.batch), data<float>(call.sigma), data<int64_t>(call.key), mutable_data<float>(call.out)},
      MlpInput::num_blocks(call.batch.num_rows()));
}

// One kernel writes the gradient and a sum of each block, and a last one adds up the sums.
void launch(const MlpLossCall<Device>& call) {
  const Batch<float> batch = batch_of<float>(call.batch);
  const Tile tile = MlpLoss<true>::tile_of(batch.columns);
  const int64_t tiles = num_tiles(tile, batch.num_rows);
  const Tensor partials = call.device.empty(call.loss, {tiles}, ScalarType::Double);
  const int64_t* count = data<int64_t>(call.count);
  const MlpLoss<true>::Plain::Args loss(batch, nullptr, data<float>(call.weight),
                                        data_or_null<float>(call.column_weight), static_cast<float>(call.mean_weight),
                                        count, tile, nullptr, mutable_data<double>(partials));
  with_staged(tile, [&](auto staged) {
    call.device.start<MlpLoss<staged>>({loss,
                                        data<uint8_t>(call.states),
                                        data<float>(call.sigma),
                                        data<float>(call.bias),
                                        data<float>(call.input),
                                        {mutable_data<float>(call.output), call.output.stride(0)}},
                                       tiles);
  });
  call.device.start<Total<float>>({data<double>(partials), tiles, count, mutable_data<float>(call.loss)}, 1);
}

}  // namespace missdiff::cuda

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("mlp_input", TORCH_BOX(&missdiff::mlp_input<missdiff::cuda::Device>));
  m.impl("mlp_loss", TORCH_BOX(&missdiff::mlp_loss<missdiff::cuda::Device>));
}
