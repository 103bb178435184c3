// mlp_sample and mlp_predict; and mlp_train_step, which has a kernel on the CPU alone.
#pragma once

#include "arguments.h"

namespace missdiff {

// The network and a batch of rows. Devices pack weights differently, and each checks its own with `check_weights`.
template <class Device>
struct NetworkTensors {
  typename Device::ColumnsOf columns;
  Tensor x, states, weights, sigmas, shifts;
  int64_t precision;

  NetworkTensors(const Device& device, const Tensor& x_, const Tensor& states_, const Tensor& weights_,
                 const Tensor& offsets, const Tensor& sigmas_, int64_t num_sigmas, const Tensor& shifts_,
                 int64_t precision_)
      : columns(device.columns(offsets, num_columns(x_, states_), x_.size(1))), precision(precision_) {
    check_type(x_, "x", {ScalarType::Float});
    check_type(states_, "states", {ScalarType::Byte});
    check_shape(states_, "states", {x_.size(0), int64_t{columns.get().continuous} + columns.get().categorical});
    check_shape(weights_, "weights", {-1});
    sigmas = read_vector(device, sigmas_, "sigmas", ScalarType::Float, num_sigmas);
    check_type(shifts_, "shifts", {ScalarType::Float});
    check_shape(shifts_, "shifts", {sigmas_.size(0), -1, -1});
    device.check(states_, "states");
    device.check(weights_, "weights");
    device.check(shifts_, "shifts");
    x = device.contiguous(x_);
    states = device.contiguous(states_);
    weights = device.aligned(weights_);
    shifts = device.contiguous(shifts_);
    STD_TORCH_CHECK(width() >= 1, "shifts must be [steps, blocks, width] with a width of at least 1");
    check_weights(*this);
  }

  int64_t num_rows() const { return x.size(0); }
  int64_t blocks() const { return shifts.size(1); }
  int64_t width() const { return shifts.size(2); }

 private:
  static int64_t num_columns(const Tensor& x, const Tensor& states) {
    check_shape(x, "x", {-1, -1});
    check_shape(states, "states", {-1, -1});
    return states.size(1);
  }
};

template <class Device>
struct MlpSampleCall {
  const Device& device;
  const NetworkTensors<Device>& network;
  Tensor coefficients, rows, keys;  // [steps, 4], [B], [steps, 2]
  Tensor out;                       // [B, D]
};

template <class Device>
struct MlpPredictCall {
  const Device& device;
  const NetworkTensors<Device>& network;
  Tensor out;  // [B, D + C]
};

template <class Device>
Tensor mlp_sample(const Tensor& x,             // [B, D]
                  const Tensor& states,        // [B, J]
                  const Tensor& weights,       // packed
                  const Tensor& offsets,       // [K + 1]
                  const Tensor& sigmas,        // [steps]
                  const Tensor& shifts,        // [steps, blocks, W]
                  const Tensor& coefficients,  // [steps, 4]
                  const Tensor& rows,          // [B]
                  const Tensor& keys,          // [steps, 2]
                  int64_t precision) {
  const Device device(x);
  const NetworkTensors<Device> network(device, x, states, weights, offsets, sigmas, -1, shifts, precision);
  const int64_t B = x.size(0), steps = sigmas.size(0);
  check_type(coefficients, "coefficients", {ScalarType::Float});
  check_shape(coefficients, "coefficients", {steps, 4});
  device.check(coefficients, "coefficients");
  check_type(keys, "keys", {ScalarType::Long});
  check_shape(keys, "keys", {steps, 2});
  device.check(keys, "keys");
  const Tensor numbers = read_vector(device, rows, "rows", ScalarType::Long, B);
  if (steps == 0) return torch::stable::clone(x);
  const Tensor out = device.empty(x, {B, x.size(1)}, ScalarType::Float);
  const MlpSampleCall<Device> call{device, network, device.contiguous(coefficients), numbers, device.contiguous(keys),
                                   out};
  if (out.numel() > 0) launch(call);
  return out;
}

template <class Device>
Tensor mlp_predict(const Tensor& x, const Tensor& states, const Tensor& weights, const Tensor& offsets,
                   const Tensor& sigma,  // [1]
                   const Tensor& shifts, int64_t precision) {
  const Device device(x);
  const NetworkTensors<Device> network(device, x, states, weights, offsets, sigma, 1, shifts, precision);
  const Tensor out = device.empty(x, {x.size(0), x.size(1) + network.columns.get().continuous}, ScalarType::Float);
  if (out.numel() > 0) launch(MlpPredictCall<Device>{device, network, out});
  return out;
}

template <class Device>
struct MlpTrainCall {
  const Device& device;
  const BatchTensors<Device>& batch;
  Tensor weights, exp_avg, exp_avg_sq, ema;  // [P]
  Tensor loss_states;                        // [B, J]
  Tensor sigma, level_features, weight;      // [B], [B, E], [B]
  std::optional<Tensor> column_weight;       // [J]
  typename Device::Key key;
  Tensor schedule;  // [3]
  int64_t width, blocks;
  double mean_weight;
  Tensor loss;  // []
};

// One step of AdamW on the masked loss of a batch; weights and moments change in place.
template <class Device>
Tensor mlp_train_step(Tensor weights,                // [P] flat, as the next three
                      Tensor exp_avg,                // first moments
                      Tensor exp_avg_sq,             // second moments
                      Tensor ema,                    // moving average of the weights
                      const Tensor& continuous,      // [N, C]
                      const Tensor& codes,           // [N, K]
                      const Tensor& values,          // [N, C]
                      const Tensor& offsets,         // [K + 1]
                      const Tensor& rows,            // [B]
                      const Tensor& states,          // [B, J] that the network is shown
                      const Tensor& loss_states,     // [B, J] that the loss is taken with
                      const Tensor& sigma,           // [B]
                      const Tensor& level_features,  // [B, E]
                      const Tensor& weight,          // [B]
                      const Tensor& key,             // [2]
                      const Tensor& schedule,        // [3] learning rate, number of this step from 1, decay of ema
                      int64_t num_columns,           // D
                      int64_t width, int64_t blocks, double mean_weight,
                      const std::optional<Tensor>& column_weight) {  // [J]
  const Device device(continuous);
  check_type(continuous, "continuous", {ScalarType::Float});
  const BatchTensors<Device> batch(device, continuous, codes, &values, offsets, rows, states, num_columns);
  const int64_t B = batch.num_rows(), J = states.size(1);
  check_type(loss_states, "loss_states", {ScalarType::Byte});
  check_shape(loss_states, "loss_states", {B, J});
  check_type(level_features, "level_features", {ScalarType::Float});
  check_shape(level_features, "level_features", {B, -1});
  const Tensor s = read_vector(device, sigma, "sigma", ScalarType::Float, B);
  const Tensor w = read_vector(device, weight, "weight", ScalarType::Float, B);
  const Tensor numbers = read_vector(device, schedule, "schedule", ScalarType::Double, 3);
  check_shape(weights, "weights", {-1});
  const int64_t most = weights.size(0);  // so that no product of these is too large for its type
  STD_TORCH_CHECK(1 <= width && width <= most && 0 <= blocks && blocks <= most && num_columns <= most, "weights hold ",
                  most, " numbers, too few for a width of ", width, " and ", blocks, " blocks");
  const int64_t size = training_floats(batch, width, blocks, level_features.size(1));
  check_optimised(device, weights, exp_avg, exp_avg_sq, ema, size, 64);
  std::optional<Tensor> v;
  if (column_weight) v = read_vector(device, *column_weight, "column_weight", ScalarType::Float, J);
  const Tensor loss = device.empty(continuous, {}, ScalarType::Float);
  launch(MlpTrainCall<Device>{device, batch, weights, exp_avg, exp_avg_sq, ema, device.contiguous(loss_states), s,
                              device.contiguous(level_features), w, v, read_key(device, key), numbers, width, blocks,
                              mean_weight, loss});
  return loss;
}

}  // namespace missdiff
