// The layers of a training step between two matrix products.
#pragma once

#include "arguments.h"

namespace missdiff {

// Rows whose numbers are adjacent: any columns of a contiguous matrix.
template <class Device>
void check_matrix(const Device& device, const Tensor& t, const char* name, int64_t rows, int64_t columns) {
  check_type(t, name, {ScalarType::Float});
  check_shape(t, name, {rows, columns});
  device.check(t, name);
  STD_TORCH_CHECK(t.size(1) <= 1 || t.stride(1) == 1, name, " must have adjacent numbers in each row");
  STD_TORCH_CHECK(t.size(1) < Device::kMostColumns, name, " has ", t.size(1), " columns, more than a kernel can take");
}

template <class Device>
void check_optional(const Device& device, const std::optional<Tensor>& t, const char* name, int64_t rows,
                    int64_t columns) {
  if (t) check_matrix(device, *t, name, rows, columns);
}

template <class Device>
struct NormForwardCall {
  const Device& device;
  Tensor h;                          // [B, W]
  Tensor bias, gain, shift;          // [W]
  std::optional<Tensor> level;       // [B, W]
  std::optional<Tensor> level_bias;  // [W]
  Tensor out, stats;                 // [B, W], [B, 2]
  std::optional<Tensor> next;        // [B, W]
};

template <class Device>
struct NormBackwardCall {
  const Device& device;
  Tensor h;                        // [B, W]
  Tensor bias, gain, stats;        // [W], [W], [B, 2]
  Tensor grad;                     // [B, W]
  std::optional<Tensor> residual;  // [B, W]
  Tensor out;                      // [B, W]
  std::optional<Tensor> level;     // [B, W]
  bool add;
};

template <class Device>
struct SiluForwardCall {
  const Device& device;
  Tensor x, bias, out;  // [B, N], [N], [B, N]
};

template <class Device>
struct SiluBackwardCall {
  const Device& device;
  Tensor x, bias, grad;  // [B, N], [N], [B, N]
};

template <class Device>
struct ColumnSumsCall {
  const Device& device;
  Tensor x, places, out;  // [B, S], [S], [P]
};

template <class Device>
struct StoreNextCall {
  const Device& device;
  Tensor out, place, value;  // [n], [1], [1]
};

template <class Device>
void norm_forward(const Tensor& h,                          // [B, W]
                  const Tensor& bias,                       // [W] added to h
                  const Tensor& gain,                       // [W]
                  const Tensor& shift,                      // [W]
                  const std::optional<Tensor>& level,       // [B, W] added to the result
                  const std::optional<Tensor>& level_bias,  // [W] the same
                  Tensor out,                               // [B, W]
                  Tensor stats,                             // [B, 2] mean and 1 / standard deviation
                  std::optional<Tensor> next) {             // [B, W] gets h + bias
  const Device device(h);
  check_shape(h, "h", {-1, -1});
  const int64_t B = h.size(0), W = h.size(1);
  check_matrix(device, h, "h", B, W);
  const Tensor b = read_vector(device, bias, "bias", ScalarType::Float, W);
  const Tensor g = read_vector(device, gain, "gain", ScalarType::Float, W);
  const Tensor s = read_vector(device, shift, "shift", ScalarType::Float, W);
  check_optional(device, level, "level", B, W);
  std::optional<Tensor> v;
  if (level) {
    STD_TORCH_CHECK(level_bias.has_value(), "level needs level_bias");
    v = read_vector(device, *level_bias, "level_bias", ScalarType::Float, W);
  }
  check_matrix(device, out, "out", B, W);
  check_matrix(device, stats, "stats", B, 2);
  STD_TORCH_CHECK(stats.is_contiguous(), "stats must be contiguous");
  check_optional(device, next, "next", B, W);
  launch(NormForwardCall<Device>{device, h, b, g, s, level, v, out, stats, next});
}

template <class Device>
void norm_backward(Tensor h,                               // [B, W] becomes the gradient of the gain, row by row
                   const Tensor& bias,                     // [W]
                   const Tensor& gain,                     // [W]
                   const Tensor& stats,                    // [B, 2]
                   const Tensor& grad,                     // [B, W] of the result
                   const std::optional<Tensor>& residual,  // [B, W] added to the gradient of h
                   Tensor out,                             // [B, W] gets the gradient of h
                   std::optional<Tensor> level,            // [B, W] gets the gradient of the level
                   bool add) {                             // to what `level` holds
  const Device device(h);
  check_shape(h, "h", {-1, -1});
  const int64_t B = h.size(0), W = h.size(1);
  check_matrix(device, h, "h", B, W);
  const Tensor b = read_vector(device, bias, "bias", ScalarType::Float, W);
  const Tensor g = read_vector(device, gain, "gain", ScalarType::Float, W);
  check_matrix(device, stats, "stats", B, 2);
  STD_TORCH_CHECK(stats.is_contiguous(), "stats must be contiguous");
  check_matrix(device, grad, "grad", B, W);
  check_optional(device, residual, "residual", B, W);
  check_matrix(device, out, "out", B, W);
  check_optional(device, level, "level", B, W);
  launch(NormBackwardCall<Device>{device, h, b, g, stats, grad, residual, out, level, add});
}

template <class Device>
void silu_forward(const Tensor& x,     // [B, N]
                  const Tensor& bias,  // [N] added to x
                  Tensor out) {        // [B, N]
  const Device device(x);
  check_shape(x, "x", {-1, -1});
  check_matrix(device, x, "x", x.size(0), x.size(1));
  const Tensor b = read_vector(device, bias, "bias", ScalarType::Float, x.size(1));
  check_matrix(device, out, "out", x.size(0), x.size(1));
  launch(SiluForwardCall<Device>{device, x, b, out});
}

template <class Device>
void silu_backward(Tensor x,              // [B, N] becomes the gradient with respect to it
                   const Tensor& bias,    // [N]
                   const Tensor& grad) {  // [B, N] of the result
  const Device device(x);
  check_shape(x, "x", {-1, -1});
  check_matrix(device, x, "x", x.size(0), x.size(1));
  const Tensor b = read_vector(device, bias, "bias", ScalarType::Float, x.size(1));
  check_matrix(device, grad, "grad", x.size(0), x.size(1));
  launch(SiluBackwardCall<Device>{device, x, b, grad});
}

template <class Device>
void column_sums(const Tensor& x,       // [B, S]
                 const Tensor& places,  // [S] where each sum goes, negative for none
                 Tensor out) {          // [P]
  const Device device(x);
  check_shape(x, "x", {-1, -1});
  check_matrix(device, x, "x", x.size(0), x.size(1));
  const Tensor p = read_vector(device, places, "places", ScalarType::Long, x.size(1));
  check_type(out, "out", {ScalarType::Float});
  check_shape(out, "out", {-1});
  device.check(out, "out");
  STD_TORCH_CHECK(out.is_contiguous(), "out must be contiguous");
  launch(ColumnSumsCall<Device>{device, x, p, out});
}

template <class Device>
void store_next(Tensor out,             // [n]
                Tensor place,           // [1] where the number goes; counts on by one
                const Tensor& value) {  // []
  const Device device(out);
  check_type(out, "out", {ScalarType::Float});
  check_shape(out, "out", {-1});
  check_type(place, "place", {ScalarType::Long});
  check_shape(place, "place", {1});
  check_type(value, "value", {ScalarType::Float});
  check_shape(value, "value", {});
  device.check(place, "place");
  device.check(value, "value");
  STD_TORCH_CHECK(out.is_contiguous(), "out must be contiguous");
  launch(StoreNextCall<Device>{device, out, place, value});
}

}  // namespace missdiff
