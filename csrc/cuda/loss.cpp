#include "kernels/loss.h"

#include "../calls/loss.h"
#include "device.h"

namespace missdiff::cuda {
namespace {

// Calls `function` with the C++ types of a table and of its prediction.
template <class Function>
void with_types(ScalarType table, ScalarType prediction, Function function) {
  if (table == ScalarType::Double) {
    function(Is<double>(), Is<double>());
  } else {
    with_prediction_type<float>(prediction, [&](auto cell) { function(Is<float>(), cell); });
  }
}

// A first kernel counts the normaliser, `start_blocks(partials, count)` starts the one that writes the gradient and a
// sum of each block, and a last kernel adds up the sums.
template <class T, bool kNoisyWidth, class StartBlocks>
void take_loss(const Device& device, const Batch<T>& batch, int64_t blocks, const Tensor& loss,
               StartBlocks start_blocks) {
  const Tensor count = torch::stable::new_zeros(loss, torch::headeronly::IntHeaderOnlyArrayRef({1}), ScalarType::Long);
  const Tensor partials = device.empty(loss, {blocks}, ScalarType::Double);
  device.start<Count<T, kNoisyWidth>>({batch, mutable_data<int64_t>(count)},
                                      Count<T, kNoisyWidth>::num_blocks(batch.num_rows));
  start_blocks(mutable_data<double>(partials), data<int64_t>(count));
  device.start<Total<T>>({data<double>(partials), blocks, data<int64_t>(count), mutable_data<T>(loss)}, 1);
}

}  // namespace

void launch(const LossCall<Device>& call) {
  with_types(call.batch.type(), call.prediction.scalar_type(), [&](auto table, auto cell) {
    using T = typename decltype(table)::Type;
    using P = typename decltype(cell)::Type;
    const Batch<T> batch = batch_of<T>(call.batch);
    const Tile tile = Loss<T, P, true>::tile_of(batch.columns);
    const int64_t tiles = batch.columns.width == 0 ? 0 : num_tiles(tile, batch.num_rows);
    take_loss<T, false>(call.device, batch, tiles, call.loss, [&](double* partials, const int64_t* count) {
      with_staged(tile, [&](auto staged) {
        call.device.start<Loss<T, P, staged>>(
            {batch, data<P>(call.prediction), data<T>(call.weight), data_or_null<T>(call.column_weight),
             static_cast<T>(call.mean_weight), count, tile, mutable_data<P>(call.grad), partials},
            tiles);
      });
    });
  });
}

void launch(const NoiseLossCall<Device>& call) {
  with_types(call.batch.type(), call.prediction.scalar_type(), [&](auto table, auto cell) {
    using T = typename decltype(table)::Type;
    using P = typename decltype(cell)::Type;
    const Batch<T> batch = batch_of<T>(call.batch);
    const Tile tile = NoiseLoss<T, P, true>::tile_of(batch.columns);
    const int64_t tiles = batch.columns.width == 0 ? 0 : num_tiles(tile, batch.num_rows);
    take_loss<T, true>(call.device, batch, tiles, call.loss, [&](double* partials, const int64_t* count) {
      with_staged(tile, [&](auto staged) {
        call.device.start<NoiseLoss<T, P, staged>>({batch, data<P>(call.prediction), data<int64_t>(call.key), count,
                                                    tile, mutable_data<P>(call.grad), partials},
                                                   tiles);
      });
    });
  });
}

}  // namespace missdiff::cuda

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("masked_loss", TORCH_BOX(&missdiff::masked_loss<missdiff::cuda::Device>));
  m.impl("masked_noise_loss", TORCH_BOX(&missdiff::masked_noise_loss<missdiff::cuda::Device>));
}
