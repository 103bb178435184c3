#pragma once

#include "arguments.h"

namespace missdiff {

template <class Device>
struct PerturbCall {
  const Device& device;
  const BatchTensors<Device>& batch;
  Tensor alpha, sigma;  // [B]
  typename Device::Key key;
  double low, high;
  Tensor out;  // [B, D]
};

template <class Device>
Tensor perturb(const Tensor& continuous,  // [N, C]
               const Tensor& codes,       // [N, K]
               const Tensor& offsets,     // [K + 1]
               const Tensor& rows,        // [B]
               const Tensor& states,      // [B, J]
               const Tensor& alpha,       // [B]
               const Tensor& sigma,       // [B]
               const Tensor& key,         // [2]
               int64_t width, double low, double high) {
  const Device device(continuous);
  const BatchTensors<Device> batch(device, continuous, codes, nullptr, offsets, rows, states, width);
  const int64_t B = batch.num_rows();
  const Tensor a = read_vector(device, alpha, "alpha", batch.type(), B);
  const Tensor s = read_vector(device, sigma, "sigma", batch.type(), B);
  const Tensor out = device.empty(continuous, {B, width}, batch.type());
  const PerturbCall<Device> call{device, batch, a, s, read_key(device, key), low, high, out};
  if (width > 0) launch(call);
  return out;
}

}  // namespace missdiff
