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
  check_type(x, "x", {ScalarType::Float, ScalarType::Double});
  check_shape(x, "x", {-1, -1});
  const int64_t B = x.size(0), D = x.size(1);
  const OwnedColumns owned(offsets, D);
  const Columns& columns = owned.get();
  check_type(prediction, "prediction", {x.scalar_type(), ScalarType::BFloat16});
  check_shape(prediction, "prediction", {B, -1});
  STD_TORCH_CHECK(prediction.size(1) >= D, "prediction has ", prediction.size(1), " columns, fewer than x's ", D);
  check_type(states, "states", {ScalarType::Byte});
  check_shape(states, "states", {B, columns.continuous + columns.categorical});
  check_type(coefficients, "coefficients", {x.scalar_type()});
  check_shape(coefficients, "coefficients", {4});
  check_type(rows, "rows", {ScalarType::Long});
  check_shape(rows, "rows", {B});
  const Key words = read_key(key);
  const Tensor x_ = torch::stable::contiguous(x), prediction_ = torch::stable::contiguous(prediction);
  const Tensor states_ = torch::stable::contiguous(states), rows_ = torch::stable::contiguous(rows);
  const Tensor coefficients_ = torch::stable::contiguous(coefficients);
  std::optional<Tensor> previous_;
  if (previous) {
    check_type(*previous, "previous", {x.scalar_type()});
    check_shape(*previous, "previous", {B, D});
    previous_ = torch::stable::contiguous(*previous);
  }
  Tensor next = allocate(x, {B, D}, x.scalar_type()), p = allocate(x, {B, D}, x.scalar_type());
  StepArgs args{columns,
                type_of(x),
                type_of(prediction),
                x_.const_data_ptr(),
                prediction_.const_data_ptr(),
                prediction.size(1),
                previous_ ? previous_->const_data_ptr() : nullptr,
                states_.const_data_ptr<uint8_t>(),
                {},
                rows_.const_data_ptr<int64_t>(),
                words.seed,
                words.step,
                softmax,
                next.mutable_data_ptr(),
                p.mutable_data_ptr()};
  for (int i = 0; i < 4; ++i) {
    args.coefficients[i] = args.type == Type::kDouble ? coefficients_.const_data_ptr<double>()[i]
                                                      : coefficients_.const_data_ptr<float>()[i];
  }
  launch(kernels().step, args, D == 0 ? 0 : B, D, columns);
  return {next, p};
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) { m.impl("step", TORCH_BOX(&missdiff::step)); }
