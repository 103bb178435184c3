#include "../calls/mlp.h"

#include "adamw.h"
#include "kernels/scratch.h"
#include "kernels/transposes.h"
#include "loss.h"

namespace missdiff::cpu {
namespace {

constexpr int64_t kFloat32 = 0;      // the only precision of the CPU's kernels
constexpr int64_t kMostBuffers = 8;  // of gradients; one thread fills each

thread_local KeptMemory kept_batch, kept_scratch;

MlpArgs network_args(const NetworkTensors<Device>& network) {
  MlpArgs args{};
  args.columns = network.columns.get();
  args.weights = network.weights.const_data_ptr<float>();
  args.width = network.width();
  args.blocks = network.blocks();
  args.steps = network.sigmas.size(0);
  args.sigmas = network.sigmas.const_data_ptr<float>();
  args.shifts = network.shifts.const_data_ptr<float>();
  args.states = network.states.const_data_ptr<uint8_t>();
  args.x = network.x.const_data_ptr<float>();
  args.num_rows = network.num_rows();
  return args;
}

int64_t num_tiles(const MlpArgs& args) { return (args.num_rows + kMlpRows - 1) / kMlpRows; }

// Arrays of a training step that all threads read or write.
struct StepMemory {
  float *x, *prediction, *grad, *gradients;
  char* transposed;

  StepMemory(const MlpTrainArgs& args, Scratch& scratch) {
    const Columns& columns = args.perturb.batch.columns;
    const int64_t B = args.perturb.batch.num_rows, outputs = columns.width + columns.continuous;
    x = scratch.take<float>(B * columns.width);
    prediction = scratch.take<float>(B * outputs);
    grad = scratch.take<float>(B * outputs);
    gradients = scratch.take<float>(args.buffers * args.num_weights);
    transposed = scratch.take<char>(static_cast<int64_t>(bytes_of<Transposes>(args)));
  }
};

}  // namespace

void check_weights(const NetworkTensors<Device>& network) {
  STD_TORCH_CHECK(network.precision == kFloat32, "on the CPU precision must be 0 (float32), not ", network.precision);
  check_type(network.weights, "weights", {ScalarType::Float});
  check_alignment(network.weights, "weights", 64);
  const Columns& columns = network.columns.get();
  const int64_t W = network.width(), J = columns.continuous + columns.categorical;
  const int64_t wanted = (columns.width + 2 * J + 1) * whole_panels(W) + network.blocks() * mlp_block_floats(W) +
                         (W + 1) * whole_panels(columns.width + columns.continuous);
  STD_TORCH_CHECK(network.weights.size(0) == wanted, "weights hold ", network.weights.size(0), " numbers, not the ",
                  wanted, " of a network of this width");
}

void launch(const MlpSampleCall<Device>& call) {
  MlpArgs args = network_args(call.network);
  args.coefficients = call.coefficients.const_data_ptr<float>();
  args.rows = call.rows.const_data_ptr<int64_t>();
  args.keys = call.keys.const_data_ptr<int64_t>();
  args.out = call.out.mutable_data_ptr<float>();
  run(kernels().mlp_sample, args, num_tiles(args), 1);
}

void launch(const MlpPredictCall<Device>& call) {
  MlpArgs args = network_args(call.network);
  args.out = call.out.mutable_data_ptr<float>();
  run(kernels().mlp_predict, args, num_tiles(args), 1);
}

int64_t training_floats(const BatchTensors<Device>& batch, int64_t width, int64_t blocks, int64_t features) {
  return mlp_train_floats(batch.columns.get(), width, blocks, features);
}

void launch(const MlpTrainCall<Device>& call) {
  const BatchArgs batch = batch_args(call.batch, call.key);
  const int64_t B = batch.num_rows;
  const std::vector<float> ones(static_cast<size_t>(B), 1.0f);
  std::vector<double> partials(static_cast<size_t>(num_blocks(B)));
  const double scale = 1.0 / static_cast<double>(count(batch, false));
  BatchArgs of_loss = batch;
  of_loss.states = call.loss_states.const_data_ptr<uint8_t>();
  MlpTrainArgs args{{batch, ones.data(), call.sigma.const_data_ptr(), 0.0, 1.0, nullptr},
                    {of_loss, Type::kFloat, nullptr, call.weight.const_data_ptr(), data_or_null(call.column_weight),
                     call.mean_weight, scale, nullptr, partials.data()},
                    nullptr,
                    call.width,
                    call.blocks,
                    call.level_features.size(1),
                    call.level_features.const_data_ptr<float>(),
                    call.weights.const_data_ptr<float>(),
                    call.weights.size(0),
                    nullptr,
                    nullptr,
                    std::min(kMostBuffers, (B + kTrainRows - 1) / kTrainRows)};
  const KeptMemory::Loan shared(kept_batch, bytes_of<StepMemory>(args));
  Scratch scratch(shared.get());
  const StepMemory pieces(args, scratch);
  args.perturb.out = pieces.x;
  args.prediction = pieces.prediction;
  args.loss.prediction = pieces.prediction;
  args.loss.grad = pieces.grad;
  args.gradients = pieces.gradients;
  args.transposed = pieces.transposed;
  run(kernels().mlp_transpose, args, 2 + 2 * call.blocks, 1);
  std::atomic<bool> good{true};
  const size_t bytes = kernels().mlp_gradients.bytes(args);
  torch::stable::parallel_for(0, args.buffers, 1, [&](int64_t begin, int64_t end) {
    const KeptMemory::Loan memory(kept_scratch, bytes);
    if (kernels().mlp_gradients.run(args, begin, end, memory.get()) != 0) good.store(false, std::memory_order_relaxed);
  });
  check_codes(good.load());
  run_adamw(adamw_args(args.gradients, args.buffers, args.num_weights, call.weights.mutable_data_ptr<float>(),
                       call.exp_avg.mutable_data_ptr<float>(), call.exp_avg_sq.mutable_data_ptr<float>(),
                       call.ema.mutable_data_ptr<float>(), call.schedule.const_data_ptr<double>()));
  write_loss(partials, scale, call.loss);
}

}  // namespace missdiff::cpu

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) {
  m.impl("mlp_sample", TORCH_BOX(&missdiff::mlp_sample<missdiff::cpu::Device>));
  m.impl("mlp_predict", TORCH_BOX(&missdiff::mlp_predict<missdiff::cpu::Device>));
  m.impl("mlp_train_step", TORCH_BOX(&missdiff::mlp_train_step<missdiff::cpu::Device>));
}
