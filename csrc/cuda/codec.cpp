#include "kernels/codec.h"

#include "../calls/codec.h"
#include "device.h"

namespace missdiff::cuda {

void launch(const DecodeCall<Device>& call) {
  with_table_type(call.x.scalar_type(), [&](auto table) {
    using T = typename decltype(table)::Type;
    const int64_t B = call.x.size(0);
    const Tile tile = Decode<T, true>::tile_of(call.columns.get());
    with_staged(tile, [&](auto staged) {
      call.device.start<Decode<T, staged>>({call.columns.get(), data<T>(call.x), data<T>(call.boundaries),
                                            call.boundaries.size(0), data<int64_t>(call.starts), B, tile,
                                            mutable_data<int32_t>(call.bin_index), mutable_data<int16_t>(call.codes)},
                                           num_tiles(tile, B));
    });
  });
}

}  // namespace missdiff::cuda

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("decode", TORCH_BOX(&missdiff::decode<missdiff::cuda::Device>));
}
