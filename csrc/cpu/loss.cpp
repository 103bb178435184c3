#include "loss.h"

#include <tuple>

namespace missdiff {
namespace {

void check_prediction(const Tensor& prediction, const Tensor& continuous, int64_t rows, int64_t width) {
  if (continuous.scalar_type() == ScalarType::Double) {
    check_type(prediction, "prediction", {ScalarType::Double});
  } else {
    check_type(prediction, "prediction", {ScalarType::Float, ScalarType::BFloat16});
  }
  check_shape(prediction, "prediction", {rows, width});
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
  check_shape(prediction, "prediction", {-1, -1});
  check_shape(continuous, "continuous", {-1, -1});
  const Batch batch(continuous, codes, &values, offsets, rows, states, prediction.size(1) - continuous.size(1), {0, 0});
  const Columns& columns = batch.args.columns;
  const int64_t B = batch.args.num_rows;
  check_prediction(prediction, continuous, B, columns.width + columns.continuous);
  check_type(weight, "weight", {continuous.scalar_type()});
  check_shape(weight, "weight", {B});
  std::optional<Tensor> v;
  if (column_weight) {
    check_type(*column_weight, "column_weight", {continuous.scalar_type()});
    check_shape(*column_weight, "column_weight", {columns.continuous + columns.categorical});
    v = torch::stable::contiguous(*column_weight);
  }
  const Tensor p = torch::stable::contiguous(prediction), w = torch::stable::contiguous(weight);
  Tensor grad = allocate(prediction, {B, prediction.size(1)}, prediction.scalar_type());
  std::vector<double> partials(static_cast<size_t>(num_blocks(B)));
  const double scale = 1.0 / static_cast<double>(count(batch, false));
  const LossArgs args{
      batch.args,  type_of(p), p.const_data_ptr(),      w.const_data_ptr(), v ? v->const_data_ptr() : nullptr,
      mean_weight, scale,      grad.mutable_data_ptr(), partials.data()};
  check_codes(launch(kernels().loss, args, num_blocks(B), kLossBlock * prediction.size(1), columns));
  return {total_loss(partials, scale, prediction), grad};
}

std::tuple<Tensor, Tensor> masked_noise_loss(const Tensor& prediction,  // [B, D]
                                             const Tensor& continuous,  // [N, C]
                                             const Tensor& codes,       // [N, K]
                                             const Tensor& offsets,     // [K + 1]
                                             const Tensor& rows,        // [B]
                                             const Tensor& states,      // [B, J]
                                             const Tensor& key) {       // [2]
  check_shape(prediction, "prediction", {-1, -1});
  const int64_t width = prediction.size(1);
  const Batch batch(continuous, codes, nullptr, offsets, rows, states, width, read_key(key));
  const int64_t B = batch.args.num_rows;
  check_prediction(prediction, continuous, B, width);
  const Tensor p = torch::stable::contiguous(prediction);
  Tensor grad = allocate(prediction, {B, width}, prediction.scalar_type());
  std::vector<double> partials(static_cast<size_t>(num_blocks(B)));
  const double scale = 1.0 / static_cast<double>(count(batch, true));
  const NoiseLossArgs args{batch.args, type_of(p), p.const_data_ptr(), scale, grad.mutable_data_ptr(), partials.data()};
  launch(kernels().noise_loss, args, num_blocks(B), kLossBlock * width, batch.args.columns);
  return {total_loss(partials, scale, prediction), grad};
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) {
  m.impl("masked_loss", TORCH_BOX(&missdiff::masked_loss));
  m.impl("masked_noise_loss", TORCH_BOX(&missdiff::masked_noise_loss));
}
