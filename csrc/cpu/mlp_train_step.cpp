#include <algorithm>
#include <utility>

#include "loss.h"
#include "update.h"

namespace missdiff {
namespace {

constexpr int64_t kMostBuffers = 8;  // of gradients; as many threads work on one batch, if it has as many tiles

// Memory that a thread keeps from one step to the next, up to 64 MiB, since to be given fresh pages takes a fifth as
// long as the step.
class KeptMemory {
 public:
  // One step's use of it.
  class Loan {
   public:
    Loan(KeptMemory& kept, size_t bytes) : kept_(kept) {
      if (bytes <= kept.bytes_) return;
      kept.give_back();  // before there is more, so that both are never held
      kept.memory_ = std::make_unique<ThreadMemory>(bytes);
      kept.bytes_ = bytes;
    }
    ~Loan() {
      if (kept_.bytes_ > kMostKept) kept_.give_back();
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    char* get() const { return kept_.memory_->get(); }

   private:
    KeptMemory& kept_;
  };

 private:
  static constexpr size_t kMostKept = size_t{1} << 26;
  void give_back() {
    bytes_ = 0;
    memory_.reset();
  }

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
  check_shape(weights, "weights", {-1});
  const int64_t most = weights.size(0);  // so that no product of these is too large for its type
  STD_TORCH_CHECK(1 <= width && width <= most && 0 <= blocks && blocks <= most && D <= most, "weights hold ", most,
                  " numbers, too few for a width of ", width, " and ", blocks, " blocks");
  const int64_t E = levels.size(1);
  const int64_t wanted = mlp_train_floats(columns, width, blocks, E);
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
  check_apart({weights.const_data_ptr<float>(), mean.const_data_ptr<float>(), square.const_data_ptr<float>(),
               average.const_data_ptr<float>()},
              wanted);
  std::optional<Tensor> v;
  if (column_weight) {
    check_type(*column_weight, "column_weight", {ScalarType::Float});
    check_shape(*column_weight, "column_weight", {J});
    v = torch::stable::contiguous(*column_weight);
  }
  const Tensor judged_ = torch::stable::contiguous(judged), sigma_ = torch::stable::contiguous(sigma);
  const Tensor levels_ = torch::stable::contiguous(levels), weight_ = torch::stable::contiguous(weight);
  const Tensor schedule_ = torch::stable::contiguous(schedule);
  const std::vector<float> ones(static_cast<size_t>(B), 1.0f);

  const double scale = 1.0 / static_cast<double>(count(batch, false));
  const int64_t buffers = std::min(kMostBuffers, (B + kTrainRows - 1) / kTrainRows);
  float *x, *prediction, *grad, *gradients, *transposed;
  auto lay_out = [&](Pieces pieces) {
    x = pieces.take(B * D);
    prediction = pieces.take(B * (D + C));
    grad = pieces.take(B * (D + C));
    gradients = pieces.take(buffers * wanted);
    transposed = pieces.take(mlp_transposed_floats(columns, width, blocks));
    return pieces.used();
  };
  const KeptMemory::Loan batch_memory(kept_batch, std::max<size_t>(lay_out(Pieces(nullptr)), 64));
  lay_out(Pieces(batch_memory.get()));
  std::vector<double> partials(static_cast<size_t>(num_blocks(B)));
  BatchArgs to_judge = batch.args;
  to_judge.states = judged_.const_data_ptr<uint8_t>();
  const MlpTrainArgs args{{batch.args, ones.data(), sigma_.const_data_ptr(), 0.0, 1.0, x},
                          {to_judge, Type::kFloat, prediction, weight_.const_data_ptr(),
                           v ? v->const_data_ptr() : nullptr, mean_weight, scale, grad, partials.data()},
                          prediction,
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
    const KeptMemory::Loan memory(kept_scratch, bytes);
    if (kernels().mlp_gradients(args, begin, end, memory.get()) != 0) bad.store(1, std::memory_order_relaxed);
  });
  check_codes(bad.load() == 0);

  update(update_args(gradients, buffers, wanted, weights.mutable_data_ptr<float>(), mean.mutable_data_ptr<float>(),
                     square.mutable_data_ptr<float>(), average.mutable_data_ptr<float>(),
                     schedule_.const_data_ptr<double>()));
  return total_loss(partials, scale, continuous);
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) { m.impl("mlp_train_step", TORCH_BOX(&missdiff::mlp_train_step)); }
