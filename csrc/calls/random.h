// uniform and normal.
#pragma once

#include "arguments.h"

namespace missdiff {

template <class Device>
struct RandomCall {
  const Device& device;
  Tensor rows;  // [B]
  int64_t columns;
  typename Device::Key key;
  bool normal;  // else uniform
  Tensor out;   // [B, columns]
};

template <class Device>
Tensor random(const Tensor& rows,  // [B]
              int64_t columns,
              const Tensor& key,  // [2]
              bool normal) {
  const Device device(rows);
  const Tensor numbers = read_vector(device, rows, "rows", ScalarType::Long, -1);
  STD_TORCH_CHECK(0 <= columns && columns < Device::kMostColumns, "columns must be in [0, ", Device::kMostColumns,
                  "), but is ", columns);
  const Tensor out = device.empty(rows, {rows.size(0), columns}, ScalarType::Float);
  const RandomCall<Device> call{device, numbers, columns, read_key(device, key), normal, out};
  if (columns > 0) launch(call);
  return out;
}

template <class Device>
Tensor uniform(const Tensor& rows, int64_t columns, const Tensor& key) {
  return random<Device>(rows, columns, key, false);
}

template <class Device>
Tensor normal(const Tensor& rows, int64_t columns, const Tensor& key) {
  return random<Device>(rows, columns, key, true);
}

}  // namespace missdiff
