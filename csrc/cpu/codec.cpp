#include "../calls/codec.h"

#include "device.h"

namespace missdiff::cpu {

// Runs in the calling thread, since the codec encodes several columns at once.
void launch(const EncodeCall<Device>& call) {
  const double least = 0.5 / static_cast<double>(call.count);
  const int64_t N = call.cells.size(0), V = call.keys.size(0);
  EncodeArgs args{type_of(call.cells),
                  nullptr,
                  call.keys.const_data_ptr(),
                  V,
                  call.ends.const_data_ptr<double>(),
                  call.boundaries.const_data_ptr<float>(),
                  least,
                  1.0 - least,
                  call.share ? call.share->const_data_ptr<double>() : nullptr,
                  nullptr,
                  nullptr};
  const auto encode_all = [&](const Tensor& from, const Tensor& to) {
    args.cells = from.const_data_ptr();
    args.scores = to.mutable_data_ptr<float>();
    kernels().encode.run(args, 0, from.size(0), nullptr);
  };
  // Without a share, equal cells have equal scores: a key that many cells hold is computed only once.
  std::optional<Tensor> middles;
  if (!call.share && N > V) {
    middles = call.device.empty(call.cells, {V}, ScalarType::Float);
    encode_all(call.keys, *middles);
    args.middles = middles->const_data_ptr<float>();
  }
  encode_all(call.cells, call.scores);
}

void launch(const DecodeCall<Device>& call) {
  const DecodeArgs args{call.columns.get(),
                        type_of(call.x),
                        call.x.const_data_ptr(),
                        call.boundaries.const_data_ptr(),
                        call.starts.const_data_ptr<int64_t>(),
                        call.bin_index.mutable_data_ptr<int32_t>(),
                        call.codes.mutable_data_ptr<int16_t>()};
  run(kernels().decode, args, call.x.size(0), grain_of(call.x.size(1)));
}

}  // namespace missdiff::cpu

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) {
  m.impl("encode", TORCH_BOX(&missdiff::encode<missdiff::cpu::Device>));
  m.impl("decode", TORCH_BOX(&missdiff::decode<missdiff::cpu::Device>));
}
