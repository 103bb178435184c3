#include <tuple>

#include "launch.h"

namespace missdiff {
namespace {

std::tuple<Tensor, Tensor> decode(const Tensor& x,           // [B, D]
                                  const Tensor& offsets,     // [K + 1]
                                  const Tensor& boundaries,  // [M]
                                  const Tensor& starts) {    // [C + 1]
  check_type(x, "x", {ScalarType::Float, ScalarType::Double});
  check_shape(x, "x", {-1, -1});
  const int64_t B = x.size(0), D = x.size(1);
  const OwnedColumns owned(offsets, D);
  const Columns& columns = owned.get();
  check_type(boundaries, "boundaries", {x.scalar_type()});
  check_shape(boundaries, "boundaries", {-1});
  check_type(starts, "starts", {ScalarType::Long});
  check_shape(starts, "starts", {columns.continuous + 1});
  const Tensor x_ = torch::stable::contiguous(x), boundaries_ = torch::stable::contiguous(boundaries);
  const Tensor starts_ = torch::stable::contiguous(starts);
  const int64_t* first = starts_.const_data_ptr<int64_t>();
  STD_TORCH_CHECK(first[0] >= 0 && first[columns.continuous] <= boundaries.size(0), "starts must lie in [0, ",
                  boundaries.size(0), "], the number of boundaries");
  for (int64_t c = 0; c < columns.continuous; ++c) {
    STD_TORCH_CHECK(first[c] <= first[c + 1], "starts must not descend, but do at column ", c);
    STD_TORCH_CHECK(first[c + 1] - first[c] <= INT32_MAX, "column ", c, " has more boundaries than int32 can count");
  }
  Tensor places = allocate(x, {B, columns.continuous}, ScalarType::Int);
  Tensor codes = allocate(x, {B, columns.categorical}, ScalarType::Short);
  const DecodeArgs args{columns,
                        type_of(x),
                        x_.const_data_ptr(),
                        boundaries_.const_data_ptr(),
                        first,
                        places.mutable_data_ptr<int32_t>(),
                        codes.mutable_data_ptr<int16_t>()};
  launch(kernels().decode, args, D == 0 ? 0 : B, D, columns);
  return {places, codes};
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) { m.impl("decode", TORCH_BOX(&missdiff::decode)); }
