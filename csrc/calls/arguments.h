// Arguments that several ops share, checked once for all devices.
//
// A device is a class with
//
//   kOnHost                          whether the host can read its tensors
//   kAlignment                       bytes that flat weights must be aligned to
//   Device(first)                    makes the device of an op's first tensor the current one
//   check(t, name)                   that a tensor is on this device
//   contiguous(t)                    the tensor's numbers without gaps
//   aligned(t)                       the same, from an address that accesses of 16 bytes can begin at
//   empty(like, shape, type)         a result
//   columns(offsets, num_columns, width)   a ColumnsOf: how columns lie in the encoded row
//   key(t)                           a Key
//
// and, in the device's namespace, a function `launch` for the checked call of each op.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>

#include "../checks.h"

namespace missdiff {

// A contiguous vector; a size of -1 matches any.
template <class Device>
Tensor read_vector(const Device& device, const Tensor& t, const char* name, ScalarType type, int64_t size) {
  check_type(t, name, {type});
  check_shape(t, name, {size});
  device.check(t, name);
  return device.contiguous(t);
}

template <class Device>
typename Device::Key read_key(const Device& device, const Tensor& key) {
  return device.key(read_vector(device, key, "key", ScalarType::Long, 2));
}

// Contiguous tensors of a table and a batch, kept alive until the kernels are done with them or started.
template <class Device>
struct BatchTensors {
  typename Device::ColumnsOf columns;
  Tensor continuous, codes, rows, states;
  std::optional<Tensor> values;

  BatchTensors(const Device& device, const Tensor& continuous_, const Tensor& codes_, const Tensor* values_,
               const Tensor& offsets, const Tensor& rows_, const Tensor& states_, int64_t width)
      : columns(device.columns(offsets, num_columns(states_), width)) {
    const int64_t C = columns.get().continuous, K = columns.get().categorical;
    check_type(continuous_, "continuous", {ScalarType::Float, ScalarType::Double});
    check_type(codes_, "codes", {ScalarType::Short});
    check_shape(continuous_, "continuous", {-1, C});
    const int64_t N = continuous_.size(0);
    check_shape(codes_, "codes", {N, K});
    device.check(codes_, "codes");
    rows = read_vector(device, rows_, "rows", ScalarType::Long, -1);
    check_type(states_, "states", {ScalarType::Byte});
    check_shape(states_, "states", {rows_.size(0), C + K});
    device.check(states_, "states");
    continuous = device.contiguous(continuous_);
    codes = device.contiguous(codes_);
    states = device.aligned(states_);
    if constexpr (Device::kOnHost) check_rows(rows.template const_data_ptr<int64_t>(), rows.size(0), N);
    if (values_ != nullptr) {
      check_type(*values_, "values", {continuous_.scalar_type()});
      check_shape(*values_, "values", {N, C});
      device.check(*values_, "values");
      values = device.contiguous(*values_);
    }
  }

  ScalarType type() const { return continuous.scalar_type(); }
  int64_t num_rows() const { return rows.size(0); }

 private:
  static int64_t num_columns(const Tensor& states) {
    check_shape(states, "states", {-1, -1});
    return states.size(1);
  }
};

inline void check_alignment(const Tensor& t, const char* name, uintptr_t bytes) {
  STD_TORCH_CHECK(reinterpret_cast<uintptr_t>(t.const_data_ptr()) % bytes == 0, name, " must be aligned to ", bytes,
                  " bytes");
}

// Checks the vectors of `size` numbers that an optimiser step changes in place.
template <class Device>
void check_optimised(const Device& device, const Tensor& weights, const Tensor& exp_avg, const Tensor& exp_avg_sq,
                     const Tensor& ema, int64_t size, uintptr_t alignment) {
  const char* const names[] = {"weights", "exp_avg", "exp_avg_sq", "ema"};
  const Tensor* const vectors[] = {&weights, &exp_avg, &exp_avg_sq, &ema};
  const float* starts[4];
  for (int i = 0; i < 4; ++i) {
    check_type(*vectors[i], names[i], {ScalarType::Float});
    check_shape(*vectors[i], names[i], {size});
    device.check(*vectors[i], names[i]);
    STD_TORCH_CHECK(vectors[i]->is_contiguous(), names[i], " must be contiguous");
    check_alignment(*vectors[i], names[i], alignment);
    starts[i] = vectors[i]->const_data_ptr<float>();
  }
  std::sort(starts, starts + 4, std::less<>());
  for (int i = 1; i < 4; ++i) {
    STD_TORCH_CHECK(size == 0 || starts[i - 1] + size <= starts[i],
                    "weights, exp_avg, exp_avg_sq and ema must not share memory");
  }
}

}  // namespace missdiff
