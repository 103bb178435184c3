#include "kernels/step.h"

#include "../calls/step.h"
#include "device.h"

namespace missdiff::cuda {

void launch(const StepCall<Device>& call) {
  with_table_type(call.x.scalar_type(), [&](auto table) {
    using T = typename decltype(table)::Type;
    with_prediction_type<T>(call.prediction.scalar_type(), [&](auto cell) {
      using P = typename decltype(cell)::Type;
      const int64_t B = call.x.size(0);
      const Tile tile = Step<T, P, true>::tile_of(call.columns.get());
      with_staged(tile, [&](auto staged) {
        call.device.start<Step<T, P, staged>>(
            {call.columns.get(), data<T>(call.x), data<P>(call.prediction), call.prediction.size(1),
             data_or_null<T>(call.previous), data<uint8_t>(call.states), data<T>(call.coefficients),
             data<int64_t>(call.rows), data<int64_t>(call.key), call.softmax, B, tile, mutable_data<T>(call.next),
             mutable_data<T>(call.p)},
            num_tiles(tile, B));
      });
    });
  });
}

}  // namespace missdiff::cuda

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("step", TORCH_BOX(&missdiff::step<missdiff::cuda::Device>));
}
