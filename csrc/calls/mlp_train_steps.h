// mlp_train_steps, which has a kernel on CUDA devices alone.
#pragma once

#include "arguments.h"

namespace missdiff {

template <class Device>
struct MlpTrainStepsCall {
  const Device& device;
  const BatchTensors<Device>& batch;         // of the rows of all steps, with the states that the loss is taken with
  Tensor weights, exp_avg, exp_avg_sq, ema;  // [P]
  Tensor states;                             // [S B, J] that the network is shown
  Tensor sigma, level_features, weight;      // [S B], [S B, E], [S B]
  std::optional<Tensor> column_weight;       // [J]
  Tensor keys, schedule;                     // [S, 2], [S, 3]
  int64_t width, blocks;
  double mean_weight;
  int64_t precision;
  Tensor losses;  // [S]

  int64_t steps() const { return keys.size(0); }
  int64_t num_rows() const { return batch.num_rows() / steps(); }
};

// Steps of AdamW, each on the masked loss of a batch of its own; weights and moments change in place.
template <class Device>
Tensor mlp_train_steps(Tensor weights,                // [P] flat and row-major, as the next three
                       Tensor exp_avg,                // first moments
                       Tensor exp_avg_sq,             // second moments
                       Tensor ema,                    // moving average of the weights
                       const Tensor& continuous,      // [N, C]
                       const Tensor& codes,           // [N, K]
                       const Tensor& values,          // [N, C]
                       const Tensor& offsets,         // [K + 1]
                       const Tensor& rows,            // [S B]
                       const Tensor& states,          // [S B, J] that the network is shown
                       const Tensor& loss_states,     // [S B, J] that the loss is taken with
                       const Tensor& sigma,           // [S B]
                       const Tensor& level_features,  // [S B, E]
                       const Tensor& weight,          // [S B]
                       const Tensor& keys,            // [S, 2]
                       const Tensor& schedule,        // [S, 3] learning rate, number of the step from 1, decay of ema
                       int64_t num_columns,           // D
                       int64_t width, int64_t blocks, double mean_weight, int64_t precision,
                       const std::optional<Tensor>& column_weight) {  // [J]
  const Device device(continuous);
  check_type(continuous, "continuous", {ScalarType::Float});
  const BatchTensors<Device> batch(device, continuous, codes, &values, offsets, rows, loss_states, num_columns);
  const int64_t all = batch.num_rows(), J = loss_states.size(1);
  check_type(keys, "keys", {ScalarType::Long});
  check_shape(keys, "keys", {-1, 2});
  device.check(keys, "keys");
  const int64_t steps = keys.size(0);
  STD_TORCH_CHECK(steps == 0 ? all == 0 : all % steps == 0, all, " rows are no whole number for each of ", steps,
                  " steps");
  check_type(states, "states", {ScalarType::Byte});
  check_shape(states, "states", {all, J});
  device.check(states, "states");
  check_type(level_features, "level_features", {ScalarType::Float});
  check_shape(level_features, "level_features", {all, -1});
  device.check(level_features, "level_features");
  check_type(schedule, "schedule", {ScalarType::Double});
  check_shape(schedule, "schedule", {steps, 3});
  device.check(schedule, "schedule");
  STD_TORCH_CHECK(precision == 0 || precision == 1, "precision must be 0 (float32) or 1 (tf32), not ", precision);
  check_shape(weights, "weights", {-1});
  const int64_t most = weights.size(0), features = level_features.size(1);
  STD_TORCH_CHECK(1 <= width && width <= most && 0 <= blocks && blocks <= most && num_columns <= most &&
                      features <= most && most <= INT32_MAX,
                  "weights hold ", most, " numbers, which a width of ", width, " and ", blocks, " blocks cannot have");
  check_optimised(device, weights, exp_avg, exp_avg_sq, ema, training_size(batch.columns, width, blocks, features), 64);
  std::optional<Tensor> v;
  if (column_weight) v = read_vector(device, *column_weight, "column_weight", ScalarType::Float, J);
  const Tensor losses = device.empty(continuous, {steps}, ScalarType::Float);
  const MlpTrainStepsCall<Device> call{device,
                                       batch,
                                       weights,
                                       exp_avg,
                                       exp_avg_sq,
                                       ema,
                                       device.contiguous(states),
                                       read_vector(device, sigma, "sigma", ScalarType::Float, all),
                                       device.contiguous(level_features),
                                       read_vector(device, weight, "weight", ScalarType::Float, all),
                                       v,
                                       device.contiguous(keys),
                                       device.contiguous(schedule),
                                       width,
                                       blocks,
                                       mean_weight,
                                       precision,
                                       losses};
  if (steps > 0) launch(call);
  return losses;
}

}  // namespace missdiff
