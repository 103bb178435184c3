#include "kernels/step.h"

#include <tuple>

#include "launch.h"

namespace missdiff {
namespace {

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
  check_device(x, states, "states");
  check_device(x, offsets, "offsets");
  const Tensor offsets_ = torch::stable::contiguous(offsets), states_ = torch::stable::contiguous(states);
  const Columns columns = read_columns(offsets_, states.size(1), D);
  check_cell_type(prediction, "prediction", own);
  check_shape(prediction, "prediction", {B, -1});
  check_device(x, prediction, "prediction");
  STD_TORCH_CHECK(prediction.size(1) >= D, "prediction has ", prediction.size(1), " columns, fewer than x's ", D);
  const Tensor x_ = packed(x), prediction_ = packed(prediction);
  const Tensor coefficients_ = read_vector(x, coefficients, "coefficients", own, 4);
  const Tensor rows_ = read_vector(x, rows, "rows", ScalarType::Long, B), words = read_key(x, key);
  std::optional<Tensor> previous_;
  if (previous) {
    check_type(*previous, "previous", {own});
    check_shape(*previous, "previous", {B, D});
    check_device(x, *previous, "previous");
    previous_ = packed(*previous);
  }
  Tensor next = empty(x, {B, D}, own), p = empty(x, {B, D}, own);
  if (D == 0) return {next, p};
  with_table_type(own, [&](auto table) {
    using T = typename decltype(table)::Type;
    with_cell_type<T>(prediction.scalar_type(), [&](auto cell) {
      using P = typename decltype(cell)::Type;
      const Tile tile = Step<T, P>::tile_of(columns);
      device.launch<Step<T, P>>(
          {columns, data<T>(x_), data<P>(prediction_), prediction.size(1), previous_ ? data<T>(*previous_) : nullptr,
           data<uint8_t>(states_), data<T>(coefficients_), data<int64_t>(rows_), data<int64_t>(words), softmax, B, tile,
           data<T>(next), data<T>(p)},
          num_tiles(tile, B));
    });
  });
  return {next, p};
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) { m.impl("step", TORCH_BOX(&missdiff::step)); }
