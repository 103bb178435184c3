#include "kernels/layers.h"

#include "../calls/layers.h"
#include "device.h"

namespace missdiff::cuda {
namespace {

Rows<const float> rows_of(const Tensor& t) { return {data<float>(t), t.stride(0)}; }
Rows<const float> rows_of(const std::optional<Tensor>& t) { return t ? rows_of(*t) : Rows<const float>{nullptr, 0}; }
Rows<float> mutable_rows(const Tensor& t) { return {mutable_data<float>(t), t.stride(0)}; }
Rows<float> mutable_rows(const std::optional<Tensor>& t) { return t ? mutable_rows(*t) : Rows<float>{nullptr, 0}; }

}  // namespace

void launch(const NormForwardCall<Device>& call) {
  const int64_t B = call.h.size(0);
  call.device.start<NormForward>(
      {rows_of(call.h), data<float>(call.bias), data<float>(call.gain), data<float>(call.shift), rows_of(call.level),
       data_or_null<float>(call.level_bias), mutable_rows(call.out), mutable_rows(call.next),
       mutable_data<float>(call.stats), B, static_cast<int>(call.h.size(1))},
      NormForward::num_blocks(B));
}

void launch(const NormBackwardCall<Device>& call) {
  const int64_t B = call.h.size(0);
  call.device.start<NormBackward>(
      {mutable_rows(call.h), data<float>(call.bias), data<float>(call.gain), data<float>(call.stats),
       rows_of(call.grad), rows_of(call.residual), mutable_rows(call.out), mutable_rows(call.level), call.add, B,
       static_cast<int>(call.h.size(1))},
      NormBackward::num_blocks(B));
}

void launch(const SiluForwardCall<Device>& call) {
  const int64_t B = call.x.size(0), N = call.x.size(1);
  if (N == 0) return;
  call.device.start<SiluForward>({rows_of(call.x), data<float>(call.bias), mutable_rows(call.out), B, Divider(N)},
                                 SiluForward::num_blocks(B));
}

void launch(const SiluBackwardCall<Device>& call) {
  const int64_t B = call.x.size(0), N = call.x.size(1);
  if (N == 0) return;
  call.device.start<SiluBackward>({mutable_rows(call.x), data<float>(call.bias), rows_of(call.grad), B, Divider(N)},
                                  SiluBackward::num_blocks(B));
}

void launch(const ColumnSumsCall<Device>& call) {
  const int64_t columns = call.x.size(1);
  call.device.start<ColumnSums>({rows_of(call.x), data<int64_t>(call.places), mutable_data<float>(call.out),
                                 call.x.size(0), columns, call.out.size(0)},
                                ColumnSums::num_blocks(columns));
}

void launch(const StoreNextCall<Device>& call) {
  call.device.start<StoreNext>(
      {mutable_data<float>(call.out), mutable_data<int64_t>(call.place), data<float>(call.value), call.out.size(0)}, 1);
}

}  // namespace missdiff::cuda

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("norm_forward", TORCH_BOX(&missdiff::norm_forward<missdiff::cuda::Device>));
  m.impl("norm_backward", TORCH_BOX(&missdiff::norm_backward<missdiff::cuda::Device>));
  m.impl("silu_forward", TORCH_BOX(&missdiff::silu_forward<missdiff::cuda::Device>));
  m.impl("silu_backward", TORCH_BOX(&missdiff::silu_backward<missdiff::cuda::Device>));
  m.impl("column_sums", TORCH_BOX(&missdiff::column_sums<missdiff::cuda::Device>));
  m.impl("store_next", TORCH_BOX(&missdiff::store_next<missdiff::cuda::Device>));
}
