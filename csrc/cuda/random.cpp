#include "../calls/random.h"

#include "device.h"

namespace missdiff::cuda {
namespace {

template <bool kNormal>
void fill(const RandomCall<Device>& call) {
  const Tile tile = make_tile(call.columns * static_cast<int64_t>(sizeof(float)));
  const int64_t B = call.rows.size(0);
  with_staged(tile, [&](auto staged) {
    call.device.start<Random<kNormal, staged>>(
        {data<int64_t>(call.rows), data<int64_t>(call.key), B, static_cast<int>(call.columns),
         Divider((call.columns + 3) / 4), tile, mutable_data<float>(call.out)},
        num_tiles(tile, B));
  });
}

}  // namespace

void launch(const RandomCall<Device>& call) { call.normal ? fill<true>(call) : fill<false>(call); }

}  // namespace missdiff::cuda

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("uniform", TORCH_BOX(&missdiff::uniform<missdiff::cuda::Device>));
  m.impl("normal", TORCH_BOX(&missdiff::normal<missdiff::cuda::Device>));
}
