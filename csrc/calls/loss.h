// masked_loss and masked_noise_loss.
#pragma once

#include "arguments.h"

namespace missdiff {

template <class Device>
struct LossCall {
  const Device& device;
  const BatchTensors<Device>& batch;
  Tensor prediction;                    // [B, D + C]
  Tensor weight;                        // [B]
  std::optional<Tensor> column_weight;  // [J]
  double mean_weight;
  Tensor loss, grad;  // [], [B, D + C]
};

template <class Device>
struct NoiseLossCall {
  const Device& device;
  const BatchTensors<Device>& batch;
  Tensor prediction;  // [B, D]
  typename Device::Key key;
  Tensor loss, grad;  // [], [B, D]
};

template <class Device>
Tensor read_prediction(const Device& device, const Tensor& prediction, ScalarType table, int64_t rows, int64_t width) {
  if (table == ScalarType::Double) {
    check_type(prediction, "prediction", {table});
  } else {
    check_type(prediction, "prediction", {table, ScalarType::BFloat16});
  }
  check_shape(prediction, "prediction", {rows, width});
  device.check(prediction, "prediction");
  return device.aligned(prediction);
}

template <class Device>
std::tuple<Tensor, Tensor> masked_loss(const Tensor& prediction,  // [B, D + C]
                                       const Tensor& continuous,  // [N, C]
                                       const Tensor& codes,       // [N, K]
                                       const Tensor& values,      // [N, C]
                                       const Tensor& offsets,     // [K + 1]
                                       const Tensor& rows,        // [B]
                                       const Tensor& states,      // [B, J]
                                       const Tensor& weight,      // [B]
                                       double mean_weight,
                                       const std::optional<Tensor>& column_weight) {  // [J]
  const Device device(continuous);
  check_shape(prediction, "prediction", {-1, -1});
  check_shape(continuous, "continuous", {-1, -1});
  const int64_t width = prediction.size(1);
  const BatchTensors<Device> batch(device, continuous, codes, &values, offsets, rows, states,
                                   width - continuous.size(1));
  const ScalarType table = batch.type();
  const int64_t B = batch.num_rows();
  const Tensor p = read_prediction(device, prediction, table, B, width);
  const Tensor w = read_vector(device, weight, "weight", table, B);
  std::optional<Tensor> v;
  if (column_weight) v = read_vector(device, *column_weight, "column_weight", table, states.size(1));
  const Tensor grad = device.empty(prediction, {B, width}, prediction.scalar_type());
  const Tensor loss = device.empty(prediction, {}, table);
  launch(LossCall<Device>{device, batch, p, w, v, mean_weight, loss, grad});
  return {loss, grad};
}

template <class Device>
std::tuple<Tensor, Tensor> masked_noise_loss(const Tensor& prediction,  // [B, D]
                                             const Tensor& continuous,  // [N, C]
                                             const Tensor& codes,       // [N, K]
                                             const Tensor& offsets,     // [K + 1]
                                             const Tensor& rows,        // [B]
                                             const Tensor& states,      // [B, J]
                                             const Tensor& key) {       // [2]
  const Device device(continuous);
  check_shape(prediction, "prediction", {-1, -1});
  const int64_t width = prediction.size(1);
  const BatchTensors<Device> batch(device, continuous, codes, nullptr, offsets, rows, states, width);
  const int64_t B = batch.num_rows();
  const Tensor p = read_prediction(device, prediction, batch.type(), B, width);
  const Tensor grad = device.empty(prediction, {B, width}, prediction.scalar_type());
  const Tensor loss = device.empty(prediction, {}, batch.type());
  launch(NoiseLossCall<Device>{device, batch, p, read_key(device, key), loss, grad});
  return {loss, grad};
}

}  // namespace missdiff
