#include "launch.h"

namespace missdiff {
namespace {

Tensor perturb(const Tensor& continuous,  // [N, C]
               const Tensor& codes,       // [N, K]
               const Tensor& offsets,     // [K + 1]
               const Tensor& rows,        // [B]
               const Tensor& states,      // [B, J]
               const Tensor& alpha,       // [B]
               const Tensor& sigma,       // [B]
               const Tensor& key,         // [2]
               int64_t width, double low, double high) {
  const Batch batch(continuous, codes, nullptr, offsets, rows, states, width, read_key(key));
  const int64_t B = batch.args.num_rows;
  check_type(alpha, "alpha", {continuous.scalar_type()});
  check_type(sigma, "sigma", {continuous.scalar_type()});
  check_shape(alpha, "alpha", {B});
  check_shape(sigma, "sigma", {B});
  const Tensor a = torch::stable::contiguous(alpha), s = torch::stable::contiguous(sigma);
  Tensor out = allocate(continuous, {B, width}, continuous.scalar_type());
  const PerturbArgs args{batch.args, a.const_data_ptr(), s.const_data_ptr(), low, high, out.mutable_data_ptr()};
  check_codes(launch(kernels().perturb, args, width == 0 ? 0 : B, width, batch.args.columns));
  return out;
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) { m.impl("perturb", TORCH_BOX(&missdiff::perturb)); }
