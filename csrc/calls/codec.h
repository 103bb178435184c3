// encode and decode.
#pragma once

#include "arguments.h"

namespace missdiff {

// One continuous column.
template <class Device>
struct EncodeCall {
  const Device& device;
  Tensor cells, keys;  // [N], [V]
  Tensor ends;         // [V + 1]
  Tensor boundaries;   // [V - 1]
  int64_t count;
  std::optional<Tensor> share;  // [N]
  Tensor scores;                // [N]
};

template <class Device>
struct DecodeCall {
  const Device& device;
  const typename Device::ColumnsOf& columns;
  Tensor x;           // [B, D]
  Tensor boundaries;  // [M]
  Tensor starts;      // [C + 1]
  Tensor bin_index;   // [B, C]
  Tensor codes;       // [B, K]
};

template <class Device>
Tensor encode(const Tensor& cells,       // [N]
              const Tensor& keys,        // [V]
              const Tensor& ends,        // [V + 1]
              const Tensor& boundaries,  // [V - 1]
              int64_t count,
              const std::optional<Tensor>& share) {  // [N]
  const Device device(cells);
  check_type(cells, "cells", {ScalarType::Float, ScalarType::Double, ScalarType::Long});
  check_shape(cells, "cells", {-1});
  const Tensor known = read_vector(device, keys, "keys", cells.scalar_type(), -1);
  const int64_t N = cells.size(0), V = keys.size(0);
  STD_TORCH_CHECK(V >= 1 && V <= INT32_MAX, "there must be from 1 to ", INT32_MAX, " keys, but there are ", V);
  const Tensor e = read_vector(device, ends, "ends", ScalarType::Double, V + 1);
  const Tensor b = read_vector(device, boundaries, "boundaries", ScalarType::Float, V - 1);
  STD_TORCH_CHECK(count >= 1, "count must be at least 1, but is ", count);
  std::optional<Tensor> s;
  if (share) s = read_vector(device, *share, "share", ScalarType::Double, N);
  const Tensor scores = device.empty(cells, {N}, ScalarType::Float);
  launch(EncodeCall<Device>{device, device.contiguous(cells), known, e, b, count, s, scores});
  return scores;
}

template <class Device>
std::tuple<Tensor, Tensor> decode(const Tensor& x,           // [B, D]
                                  const Tensor& offsets,     // [K + 1]
                                  const Tensor& boundaries,  // [M]
                                  const Tensor& starts) {    // [C + 1]
  const Device device(x);
  check_type(x, "x", {ScalarType::Float, ScalarType::Double});
  check_shape(x, "x", {-1, -1});
  const int64_t B = x.size(0), D = x.size(1);
  check_shape(offsets, "offsets", {-1});
  const Tensor first = read_vector(device, starts, "starts", ScalarType::Long, -1);
  const typename Device::ColumnsOf columns(device.columns(offsets, starts.size(0) - 1 + offsets.size(0) - 1, D));
  const int64_t C = columns.get().continuous, K = columns.get().categorical;
  check_shape(starts, "starts", {C + 1});
  const Tensor limits = read_vector(device, boundaries, "boundaries", x.scalar_type(), -1);
  if constexpr (Device::kOnHost) {
    const int64_t* at = first.template const_data_ptr<int64_t>();
    STD_TORCH_CHECK(at[0] >= 0 && at[C] <= boundaries.size(0), "starts must lie in [0, ", boundaries.size(0),
                    "], the number of boundaries");
    for (int64_t c = 0; c < C; ++c) {
      STD_TORCH_CHECK(at[c] <= at[c + 1], "starts must not descend, but do at column ", c);
      STD_TORCH_CHECK(at[c + 1] - at[c] <= INT32_MAX, "column ", c, " has more boundaries than int32 can count");
    }
  }
  const Tensor bin_index = device.empty(x, {B, C}, ScalarType::Int), codes = device.empty(x, {B, K}, ScalarType::Short);
  if (D > 0) launch(DecodeCall<Device>{device, columns, device.aligned(x), limits, first, bin_index, codes});
  return {bin_index, codes};
}

}  // namespace missdiff
