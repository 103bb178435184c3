// What the network of a training step reads, and what its output comes to.
#pragma once

#include "layers.h"

namespace missdiff {

template <class Device>
struct MlpInputCall {
  const Device& device;
  const BatchTensors<Device>& batch;
  Tensor sigma;  // [B]
  typename Device::Key key;
  Tensor out;  // [B, D + 2 J]
};

template <class Device>
struct MlpLossCall {
  const Device& device;
  const BatchTensors<Device>& batch;    // with the loss's states
  Tensor output, bias, input;           // [B, D + C], [D + C], [B, D + 2 J]
  Tensor states, sigma, weight, count;  // [B, J], [B], [B], [1]
  double mean_weight;
  std::optional<Tensor> column_weight;  // [J]
  Tensor loss;                          // []
};

template <class Device>
Tensor mlp_input(const Tensor& continuous,  // [N, C]
                 const Tensor& codes,       // [N, K]
                 const Tensor& offsets,     // [K + 1]
                 const Tensor& rows,        // [B]
                 const Tensor& states,      // [B, J]
                 const Tensor& sigma,       // [B]
                 const Tensor& key,         // [2]
                 int64_t width) {
  const Device device(continuous);
  const BatchTensors<Device> batch(device, continuous, codes, nullptr, offsets, rows, states, width);
  check_type(continuous, "continuous", {ScalarType::Float});
  const int64_t B = batch.num_rows();
  const Tensor s = read_vector(device, sigma, "sigma", ScalarType::Float, B);
  const Tensor out = device.empty(continuous, {B, width + 2 * states.size(1)}, ScalarType::Float);
  launch(MlpInputCall<Device>{device, batch, s, read_key(device, key), out});
  return out;
}

template <class Device>
Tensor mlp_loss(Tensor output,              // [B, D + C] of the last layer without its bias; becomes its gradient
                const Tensor& bias,         // [D + C]
                const Tensor& input,        // [B, D + 2 J] of the network
                const Tensor& continuous,   // [N, C]
                const Tensor& codes,        // [N, K]
                const Tensor& values,       // [N, C]
                const Tensor& offsets,      // [K + 1]
                const Tensor& rows,         // [B]
                const Tensor& states,       // [B, J] as the network saw them
                const Tensor& loss_states,  // [B, J]
                const Tensor& sigma,        // [B]
                const Tensor& weight,       // [B]
                const Tensor& count,        // [1]
                double mean_weight,
                const std::optional<Tensor>& column_weight) {  // [J]
  const Device device(continuous);
  check_shape(output, "output", {-1, -1});
  check_shape(continuous, "continuous", {-1, -1});
  const int64_t width = output.size(1), D = width - continuous.size(1);
  const BatchTensors<Device> batch(device, continuous, codes, &values, offsets, rows, loss_states, D);
  check_type(continuous, "continuous", {ScalarType::Float});
  const int64_t B = batch.num_rows(), J = loss_states.size(1);
  check_matrix(device, output, "output", B, width);
  const Tensor b = read_vector(device, bias, "bias", ScalarType::Float, width);
  check_matrix(device, input, "input", B, D + 2 * J);
  STD_TORCH_CHECK(input.is_contiguous(), "input must be contiguous");
  check_type(states, "states", {ScalarType::Byte});
  check_shape(states, "states", {B, J});
  device.check(states, "states");
  const Tensor s = read_vector(device, sigma, "sigma", ScalarType::Float, B);
  const Tensor w = read_vector(device, weight, "weight", ScalarType::Float, B);
  const Tensor n = read_vector(device, count, "count", ScalarType::Long, 1);
  std::optional<Tensor> v;
  if (column_weight) v = read_vector(device, *column_weight, "column_weight", ScalarType::Float, J);
  const Tensor loss = device.empty(continuous, {}, ScalarType::Float);
  launch(
      MlpLossCall<Device>{device, batch, output, b, input, device.contiguous(states), s, w, n, mean_weight, v, loss});
  return loss;
}

}  // namespace missdiff
