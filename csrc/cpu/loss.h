// Shared by the masked losses: the normaliser, and the sum over blocks of rows.
#pragma once

#include <vector>

#include "device.h"

namespace missdiff::cpu {

inline int64_t num_blocks(int64_t rows) { return (rows + kLossBlock - 1) / kLossBlock; }

// The loss is divided by the number of observed cells, or of encoded columns of observed noisy cells.
inline int64_t count(const BatchArgs& batch, bool noisy_width) {
  const int64_t blocks = num_blocks(batch.num_rows), cells = batch.columns.continuous + batch.columns.categorical;
  std::vector<int64_t> counts(static_cast<size_t>(blocks));
  const CountArgs args{batch, noisy_width, counts.data()};
  // Counting a cell takes about an eighth of the time of its loss.
  check_codes(run(kernels().count, args, blocks, grain_of(kLossBlock * cells / 8)));
  int64_t total = 0;
  for (int64_t n : counts) total += n;
  return total < 1 ? 1 : total;
}

// Writes the loss, a double or float. The blocks' sums are added in order, whichever thread made them.
inline void write_loss(const std::vector<double>& partials, double scale, const Tensor& loss) {
  double total = 0.0;
  for (double partial : partials) total += partial;
  if (loss.scalar_type() == ScalarType::Double) {
    *loss.mutable_data_ptr<double>() = total * scale;
  } else {
    *loss.mutable_data_ptr<float>() = static_cast<float>(total * scale);
  }
}

}  // namespace missdiff::cpu
