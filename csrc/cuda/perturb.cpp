#include "../calls/perturb.h"

#include "device.h"

namespace missdiff::cuda {

void launch(const PerturbCall<Device>& call) {
  with_table_type(call.batch.type(), [&](auto table) {
    using T = typename decltype(table)::Type;
    const int64_t width = call.out.size(1);
    const Tile tile = make_tile(width * static_cast<int64_t>(sizeof(T)));
    with_staged(tile, [&](auto staged) {
      call.device.start<Perturb<T, staged>>(
          {batch_of<T>(call.batch), data<T>(call.alpha), data<T>(call.sigma), data<int64_t>(call.key),
           static_cast<T>(call.low), static_cast<T>(call.high), Divider((width + 3) / 4), tile,
           mutable_data<T>(call.out)},
          num_tiles(tile, call.batch.num_rows()));
    });
  });
}

}  // namespace missdiff::cuda

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("perturb", TORCH_BOX(&missdiff::perturb<missdiff::cuda::Device>));
}
