#include "kernels/decode.h"

#include <tuple>

#include "launch.h"

namespace missdiff {
namespace {

std::tuple<Tensor, Tensor> decode(const Tensor& x,           // [B, D]
                                  const Tensor& offsets,     // [K + 1]
                                  const Tensor& boundaries,  // [M]
                                  const Tensor& starts) {    // [C + 1]
  const Device device(x);
  const ScalarType own = x.scalar_type();
  check_type(x, "x", {ScalarType::Float, ScalarType::Double});
  check_shape(x, "x", {-1, -1});
  check_shape(offsets, "offsets", {-1});
  check_shape(starts, "starts", {-1});
  check_device(x, offsets, "offsets");
  const int64_t B = x.size(0), D = x.size(1);
  const Tensor offsets_ = torch::stable::contiguous(offsets);
  const Columns columns = read_columns(offsets_, starts.size(0) - 1 + offsets.size(0) - 1, D);
  const Tensor x_ = packed(x), boundaries_ = read_vector(x, boundaries, "boundaries", own, -1);
  const Tensor starts_ = read_vector(x, starts, "starts", ScalarType::Long, -1);
  Tensor places = empty(x, {B, columns.continuous}, ScalarType::Int);
  Tensor codes = empty(x, {B, columns.categorical}, ScalarType::Short);
  if (D == 0) return {places, codes};
  with_table_type(own, [&](auto table) {
    using T = typename decltype(table)::Type;
    const Tile tile = Decode<T>::tile_of(columns);
    device.launch<Decode<T>>({columns, data<T>(x_), data<T>(boundaries_), boundaries.size(0), data<int64_t>(starts_), B,
                              tile, data<int32_t>(places), data<int16_t>(codes)},
                             num_tiles(tile, B));
  });
  return {places, codes};
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) { m.impl("decode", TORCH_BOX(&missdiff::decode)); }
