#include <algorithm>
#include <cmath>
#include <utility>

#include "launch.h"

namespace missdiff {
namespace {

constexpr int64_t kMostBuffers = 8;  // of gradients: as many threads can work on one batch

// Memory that a thread keeps from one step to the next, since to be given fresh pages takes a fifth as long as the
// step. What is large is given back.
class KeptMemory {
 public:
  char* get(size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();  // before there is more, so that both are never held
      memory_ = std::make_unique<ThreadMemory>(bytes);
      bytes_ = bytes;
    }
    return memory_->get();
  }
  void settle() {
    constexpr size_t kMost = size_t{1} << 26;
    if (bytes_ <= kMost) return;
    memory_.reset();
    bytes_ = 0;
  }

 private:
  std::unique_ptr<ThreadMemory> memory_;
  size_t bytes_ = 0;
};

thread_local KeptMemory kept_batch, kept_scratch;

// Hands out pieces of memory for floats, each aligned to 64 bytes; counts them only where there is none.
class Pieces {
 public:
  explicit Pieces(char* memory) : memory_(memory) {}
  float* take(int64_t floats) {
    float* piece = memory_ == nullptr ? nullptr : reinterpret_cast<float*>(memory_ + used_);
    used_ += (static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64;
    return piece;
  }
  size_t used() const { return used_; }

 private:
  char* memory_;
  size_t used_ = 0;
};

// One step of AdamW on the masked loss of a batch; weights and moments change in place.
Tensor mlp_train_step(Tensor weights,            // [P] flat, as the next three
                      Tensor mean,               // first moments
                      Tensor square,             // second moments
                      Tensor average,            // moving average of the weights
                      const Tensor& continuous,  // [N, C]
                      const Tensor& codes,       // [N, K]
                      const Tensor& values,      // [N, C]
                      const Tensor& offsets,     // [K + 1]
                      const Tensor& rows,        // [B]
                      const Tensor& states,      // [B, J] as the network sees the columns
                      const Tensor& judged,      // [B, J] as the loss does
                      const Tensor& sigma,       // [B]
                      const Tensor& levels,      // [B, E]
                      const Tensor& weight,      // [B]
                      const Tensor& key,         // [2]
                      const Tensor& schedule,    // [3] learning rate, number of this step from 1, decay of the average
                      int64_t num_columns,       // D
                      int64_t width, int64_t blocks, double mean_weight,
                      const std::optional<Tensor>& column_weight) {  // [J]
  const Batch batch(continuous, codes, &values, offsets, rows, states, num_columns, read_key(key));
  const Columns& columns = batch.args.columns;
  const int64_t B = batch.args.num_rows, C = columns.continuous, D = columns.width, J = C + columns.categorical;
  check_type(continuous, "continuous", {ScalarType::Float});
  check_type(judged, "judged", {ScalarType::Byte});
  check_shape(judged, "judged", {B, J});
  check_type(sigma, "sigma", {ScalarType::Float});
  check_shape(sigma, "sigma", {B});
  check_type(levels, "levels", {ScalarType::Float});
  check_shape(levels, "levels", {B, -1});
  check_type(weight, "weight", {ScalarType::Float});
  check_shape(weight, "weight", {B});
  check_type(schedule, "schedule", {ScalarType::Double});
  check_shape(schedule, "schedule", {3});
  STD_TORCH_CHECK(width >= 1 && blocks >= 0, "a network has a width of at least 1 and no fewer than 0 blocks");
  const int64_t E = levels.size(1);
  const int64_t wanted = panel_floats(D + 2 * J, width) + panel_floats(E, width) + panel_floats(width, width) +
                         5 * whole_panels(width) + blocks * (mlp_block_floats(width) + whole_panels(width)) +
                         (width + 1) * whole_panels(D + C);
  for (const auto& [tensor, name] : {std::pair<const Tensor*, const char*>{&weights, "weights"},
                                     {&mean, "mean"},
                                     {&square, "square"},
                                     {&average, "average"}}) {
    check_type(*tensor, name, {ScalarType::Float});
    check_shape(*tensor, name, {wanted});
    STD_TORCH_CHECK(tensor->is_contiguous(), name, " must be contiguous");
    STD_TORCH_CHECK(reinterpret_cast<uintptr_t>(tensor->const_data_ptr<float>()) % 64 == 0, name,
                    " must be aligned to 64 bytes");
  }
  std::optional<Tensor> v;
  if (column_weight) {
    check_type(*column_weight, "column_weight", {ScalarType::Float});
    check_shape(*column_weight, "column_weight", {J});
    v = torch::stable::contiguous(*column_weight);
  }
  const Tensor judged_ = torch::stable::contiguous(judged), sigma_ = torch::stable::contiguous(sigma);
  const Tensor levels_ = torch::stable::contiguous(levels), weight_ = torch::stable::contiguous(weight);
  const Tensor schedule_ = torch::stable::contiguous(schedule);
  const double* numbers = schedule_.const_data_ptr<double>();
  const std::vector<float> ones(static_cast<size_t>(B), 1.0f);

  std::vector<int64_t> counts(static_cast<size_t>((B + kLossBlock - 1) / kLossBlock));
  const CountArgs counting{batch.args, false, counts.data()};
  check_codes(launch(kernels().count, counting, static_cast<int64_t>(counts.size()), kLossBlock * J / 8, columns));
  int64_t total = 0;
  for (int64_t n : counts) total += n;
  const double scale = 1.0 / static_cast<double>(std::max<int64_t>(total, 1));

  const int64_t buffers = std::min(kMostBuffers, (B + kTrainRows - 1) / kTrainRows);
  float *x, *prediction, *grad, *gradients, *transposed;
  auto lay_out = [&](Pieces pieces) {
    x = pieces.take(B * D);
    prediction = pieces.take(B * (D + C));
    grad = pieces.take(B * (D + C));
    gradients = pieces.take(buffers * wanted);
    transposed = pieces.take(panel_floats(D + C, width) + panel_floats(width, width) +
                             blocks * (panel_floats(2 * width, width) + panel_floats(width, 2 * width)));
    return pieces.used();
  };
  lay_out(Pieces(kept_batch.get(lay_out(Pieces(nullptr)))));
  std::vector<double> partials(counts.size());
  BatchArgs to_judge = batch.args;
  to_judge.states = judged_.const_data_ptr<uint8_t>();
  const MlpTrainArgs args{{batch.args, ones.data(), sigma_.const_data_ptr(), 0.0, 1.0, Type::kFloat, x},
                          {to_judge, Type::kFloat, prediction, weight_.const_data_ptr(),
                           v ? v->const_data_ptr() : nullptr, mean_weight, scale, grad, partials.data()},
                          width,
                          blocks,
                          E,
                          levels_.const_data_ptr<float>(),
                          weights.const_data_ptr<float>(),
                          wanted,
                          transposed,
                          gradients,
                          buffers};
  torch::stable::parallel_for(0, 2 + 2 * blocks, 1,
                              [&](int64_t begin, int64_t end) { kernels().mlp_transpose(args, begin, end, nullptr); });
  std::atomic<int> bad{0};
  const size_t bytes = mlp_train_scratch_bytes(args);
  torch::stable::parallel_for(0, buffers, 1, [&](int64_t begin, int64_t end) {
    char* memory = kept_scratch.get(bytes);
    if (kernels().mlp_gradients(args, begin, end, memory) != 0) bad.store(1, std::memory_order_relaxed);
    kept_scratch.settle();
  });
  check_codes(bad.load() == 0);

  constexpr double kBetaMean = 0.9, kBetaSquare = 0.999, kEpsilon = 1e-8;  // PyTorch's
  const MlpUpdateArgs update{gradients,
                             buffers,
                             wanted,
                             weights.mutable_data_ptr<float>(),
                             mean.mutable_data_ptr<float>(),
                             square.mutable_data_ptr<float>(),
                             average.mutable_data_ptr<float>(),
                             numbers[0],
                             kBetaMean,
                             kBetaSquare,
                             kEpsilon,
                             1.0 - std::pow(kBetaMean, numbers[1]),
                             1.0 - std::pow(kBetaSquare, numbers[1]),
                             numbers[2]};
  torch::stable::parallel_for(0, (wanted + kUpdateBlock - 1) / kUpdateBlock, 4,
                              [&](int64_t begin, int64_t end) { kernels().mlp_update(update, begin, end, nullptr); });
  kept_batch.settle();
  double sum = 0.0;
  for (double partial : partials) sum += partial;
  Tensor loss = torch::stable::new_empty(continuous, {}, ScalarType::Float);
  *loss.mutable_data_ptr<float>() = static_cast<float>(sum * scale);
  return loss;
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) { m.impl("mlp_train_step", TORCH_BOX(&missdiff::mlp_train_step)); }
