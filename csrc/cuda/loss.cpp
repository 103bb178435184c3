#include "kernels/loss.h"

#include <tuple>

#include "launch.h"

namespace missdiff {
namespace {

void check_prediction(const Tensor& prediction, const Tensor& continuous, int64_t rows, int64_t width) {
  const ScalarType own = continuous.scalar_type();
  if (own == ScalarType::Double) {
    check_type(prediction, "prediction", {own});
  } else {
    check_cell_type(prediction, "prediction", own);
  }
  check_shape(prediction, "prediction", {rows, width});
  check_device(continuous, prediction, "prediction");
}

// Calls `function` with the types of a table and of a prediction that may go with it.
template <class Function>
void with_types(ScalarType table, ScalarType prediction, Function function) {
  if (table == ScalarType::Double) {
    function(Is<double>(), Is<double>());
  } else {
    with_cell_type<float>(prediction, [&](auto cell) { function(Is<float>(), cell); });
  }
}

// A number on the device that kernels add to.
Tensor zero(const Tensor& like) {
  return torch::stable::new_zeros(like, torch::headeronly::IntHeaderOnlyArrayRef({1}), ScalarType::Long);
}

template <class T>
void add_up(const Device& device, Tensor& partials, const Tensor& count, Tensor& loss) {
  device.launch<Total<T>>({data<double>(partials), partials.size(0), data<int64_t>(count), data<T>(loss)}, 1);
}

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
  const BatchTensors batch(continuous, codes, &values, offsets, rows, states, prediction.size(1) - continuous.size(1));
  const Columns& columns = batch.columns;
  const ScalarType own = continuous.scalar_type();
  const int64_t B = rows.size(0);
  check_prediction(prediction, continuous, B, static_cast<int64_t>(columns.width) + columns.continuous);
  const Tensor p = packed(prediction), w = read_vector(continuous, weight, "weight", own, B);
  std::optional<Tensor> v;
  if (column_weight) v = read_vector(continuous, *column_weight, "column_weight", own, states.size(1));
  Tensor grad = empty(prediction, {B, prediction.size(1)}, prediction.scalar_type());
  Tensor loss = empty(prediction, {}, own), number = zero(prediction);
  with_types(own, prediction.scalar_type(), [&](auto table, auto cell) {
    using T = typename decltype(table)::Type;
    using P = typename decltype(cell)::Type;
    const Batch<T> drawn = batch.batch<T>();
    const Tile tile = Loss<T, P>::tile_of(columns);
    const int64_t tiles = columns.width == 0 ? 0 : num_tiles(tile, B);
    Tensor partials = empty(prediction, {tiles}, ScalarType::Double);
    device.launch<Count<T, false>>({drawn, data<int64_t>(number)}, Count<T, false>::num_blocks(B));
    device.launch<Loss<T, P>>({drawn, data<P>(p), data<T>(w), v ? data<T>(*v) : nullptr, static_cast<T>(mean_weight),
                               data<int64_t>(number), tile, data<P>(grad), data<double>(partials)},
                              tiles);
    add_up<T>(device, partials, number, loss);
  });
  return {loss, grad};
}

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
  const BatchTensors batch(continuous, codes, nullptr, offsets, rows, states, width);
  const ScalarType own = continuous.scalar_type();
  const int64_t B = rows.size(0);
  check_prediction(prediction, continuous, B, width);
  const Tensor p = packed(prediction), words = read_key(continuous, key);
  Tensor grad = empty(prediction, {B, width}, prediction.scalar_type());
  Tensor loss = empty(prediction, {}, own), number = zero(prediction);
  with_types(own, prediction.scalar_type(), [&](auto table, auto cell) {
    using T = typename decltype(table)::Type;
    using P = typename decltype(cell)::Type;
    const Batch<T> drawn = batch.batch<T>();
    const Tile tile = NoiseLoss<T, P>::tile_of(batch.columns);
    const int64_t tiles = width == 0 ? 0 : num_tiles(tile, B);
    Tensor partials = empty(prediction, {tiles}, ScalarType::Double);
    device.launch<Count<T, true>>({drawn, data<int64_t>(number)}, Count<T, true>::num_blocks(B));
    device.launch<NoiseLoss<T, P>>(
        {drawn, data<P>(p), data<int64_t>(words), data<int64_t>(number), tile, data<P>(grad), data<double>(partials)},
        tiles);
    add_up<T>(device, partials, number, loss);
  });
  return {loss, grad};
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("masked_loss", TORCH_BOX(&missdiff::masked_loss));
  m.impl("masked_noise_loss", TORCH_BOX(&missdiff::masked_noise_loss));
}
