// What masked losses share: by what they are divided, and how their blocks are added up.
#pragma once

#include "launch.h"

namespace missdiff {
namespace {

inline int64_t num_blocks(int64_t rows) { return (rows + kLossBlock - 1) / kLossBlock; }

// The number by which the loss is divided: observed cells, or encoded columns of observed noisy cells.
inline int64_t count(const Batch& batch, bool noisy_width) {
  const int64_t blocks = num_blocks(batch.args.num_rows);
  std::vector<int64_t> counts(static_cast<size_t>(blocks));
  const CountArgs args{batch.args, noisy_width, counts.data()};
  const Columns& columns = batch.args.columns;
  // Counting a cell takes about an eighth of what the loss of one takes.
  check_codes(
      launch(kernels().count, args, blocks, kLossBlock * (columns.continuous + columns.categorical) / 8, columns));
  int64_t total = 0;
  for (int64_t n : counts) total += n;
  return total < 1 ? 1 : total;
}

// A scalar, in double or float as `like`. The blocks' sums are added in order, whichever thread made them.
inline Tensor total_loss(const std::vector<double>& partials, double scale, const Tensor& like) {
  double total = 0.0;
  for (double partial : partials) total += partial;
  const bool wide = like.scalar_type() == ScalarType::Double;
  Tensor loss = torch::stable::new_empty(like, {}, wide ? ScalarType::Double : ScalarType::Float);
  if (wide) {
    *loss.mutable_data_ptr<double>() = total * scale;
  } else {
    *loss.mutable_data_ptr<float>() = static_cast<float>(total * scale);
  }
  return loss;
}

}  // namespace
}  // namespace missdiff
