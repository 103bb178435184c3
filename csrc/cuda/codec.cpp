#include "kernels/codec.h"

#include "../calls/codec.h"
#include "device.h"

namespace missdiff::cuda {
namespace {

template <class T>
void start_encode(const EncodeCall<Device>& call) {
  const double least = 0.5 / static_cast<double>(call.count);
  const int64_t N = call.cells.size(0);
  call.device.start<Encode<T>>({data<T>(call.cells), data<T>(call.keys), data<double>(call.ends),
                                data<float>(call.boundaries), data_or_null<double>(call.share), least, 1.0 - least, N,
                                static_cast<int32_t>(call.keys.size(0)), mutable_data<float>(call.scores)},
                               Encode<T>::num_blocks(N));
}

}  // namespace

void launch(const EncodeCall<Device>& call) {
  switch (call.cells.scalar_type()) {
    case ScalarType::Long:
      return start_encode<int64_t>(call);
    case ScalarType::Double:
      return start_encode<double>(call);
    default:
      return start_encode<float>(call);
  }
}

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
  m.impl("encode", TORCH_BOX(&missdiff::encode<missdiff::cuda::Device>));
  m.impl("decode", TORCH_BOX(&missdiff::decode<missdiff::cuda::Device>));
}
