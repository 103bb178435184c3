#pragma once

#include "arguments.h"

namespace missdiff {

template <class Device>
struct StepCall {
  const Device& device;
  const typename Device::ColumnsOf& columns;
  Tensor x, prediction;            // [B, D], [B, D or more]
  std::optional<Tensor> previous;  // [B, D]
  Tensor states, coefficients;     // [B, J], [4]
  Tensor rows;                     // [B]
  typename Device::Key key;
  bool softmax;
  Tensor next, p;  // [B, D]
};

template <class Device>
std::tuple<Tensor, Tensor> step(const Tensor& x,                        // [B, D]
                                const Tensor& prediction,               // [B, D or more]
                                const std::optional<Tensor>& previous,  // [B, D]
                                const Tensor& states,                   // [B, J]
                                const Tensor& offsets,                  // [K + 1]
                                const Tensor& coefficients,             // [4]
                                const Tensor& rows,                     // [B]
                                const Tensor& key,                      // [2]
                                bool softmax) {
  const Device device(x);
  const ScalarType own = x.scalar_type();
  check_type(x, "x", {ScalarType::Float, ScalarType::Double});
  check_shape(x, "x", {-1, -1});
  const int64_t B = x.size(0), D = x.size(1);
  check_type(states, "states", {ScalarType::Byte});
  check_shape(states, "states", {B, -1});
  device.check(states, "states");
  const typename Device::ColumnsOf columns(device.columns(offsets, states.size(1), D));
  check_shape(states, "states", {B, int64_t{columns.get().continuous} + columns.get().categorical});
  check_type(prediction, "prediction", {own, ScalarType::BFloat16});
  check_shape(prediction, "prediction", {B, -1});
  device.check(prediction, "prediction");
  STD_TORCH_CHECK(prediction.size(1) >= D, "prediction has ", prediction.size(1), " columns, fewer than x's ", D);
  const Tensor c = read_vector(device, coefficients, "coefficients", own, 4);
  const Tensor numbers = read_vector(device, rows, "rows", ScalarType::Long, B);
  std::optional<Tensor> before;
  if (previous) {
    check_type(*previous, "previous", {own});
    check_shape(*previous, "previous", {B, D});
    device.check(*previous, "previous");
    before = device.aligned(*previous);
  }
  const Tensor next = device.empty(x, {B, D}, own), p = device.empty(x, {B, D}, own);
  const StepCall<Device> call{device,
                              columns,
                              device.aligned(x),
                              device.aligned(prediction),
                              before,
                              device.contiguous(states),
                              c,
                              numbers,
                              read_key(device, key),
                              softmax,
                              next,
                              p};
  if (D > 0) launch(call);
  return {next, p};
}

}  // namespace missdiff
