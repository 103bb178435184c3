#include "kernels/mlp_train_steps.h"

#include "../calls/mlp_train_steps.h"
#include "device.h"

namespace missdiff::cuda {

int64_t training_size(const ColumnsOf& columns, int64_t width, int64_t blocks, int64_t features) {
  return TrainWeights(columns.get(), static_cast<int>(width), static_cast<int>(blocks), static_cast<int>(features))
      .size;
}

void launch(const MlpTrainStepsCall<Device>& call) {
  const Device& device = call.device;
  TrainArgs args(TrainLoss::Args(batch_of<float>(call.batch), nullptr, data<float>(call.weight),
                                 data_or_null<float>(call.column_weight), static_cast<float>(call.mean_weight), nullptr,
                                 Tile{}, nullptr, nullptr));
  args.states = data<uint8_t>(call.states);
  args.sigma = data<float>(call.sigma);
  args.level_features = data<float>(call.level_features);
  args.keys = data<int64_t>(call.keys);
  args.schedule = data<double>(call.schedule);
  args.steps = call.steps();
  args.num_rows = call.num_rows();
  args.width = static_cast<int>(call.width);
  args.blocks = static_cast<int>(call.blocks);
  args.features = static_cast<int>(call.level_features.size(1));
  args.weights = mutable_data<float>(call.weights);
  args.exp_avg = mutable_data<float>(call.exp_avg);
  args.exp_avg_sq = mutable_data<float>(call.exp_avg_sq);
  args.ema = mutable_data<float>(call.ema);
  args.size = call.weights.size(0);
  args.losses = mutable_data<float>(call.losses);
  const TrainPrecision precision = static_cast<TrainPrecision>(call.precision);
  TrainPlan plan{};
  device.check_launch(plan_train_steps(args, precision, &plan));
  args.row_blocks = plan.row_blocks;
  const auto zeros = [&](int64_t size, ScalarType type) {
    return torch::stable::new_zeros(call.weights, torch::headeronly::IntHeaderOnlyArrayRef({size}), type);
  };
  const Tensor gradients = zeros(plan.row_blocks * args.size, ScalarType::Float);
  const Tensor arrived = zeros(1, ScalarType::Long);
  const Tensor sums = device.empty(call.weights, {2 * int64_t{plan.row_blocks}}, ScalarType::Double);
  const Tensor scratch = device.empty(call.weights, {plan.scratch_bytes}, ScalarType::Byte);
  args.gradients = mutable_data<float>(gradients);
  args.arrived = static_cast<unsigned long long*>(arrived.mutable_data_ptr());
  args.sums = mutable_data<double>(sums);
  args.counts = args.sums + plan.row_blocks;
  args.scratch = mutable_data<char>(scratch);
  device.check_launch(launch_train_steps(args, precision, plan, device.stream()));
}

}  // namespace missdiff::cuda

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("mlp_train_steps", TORCH_BOX(&missdiff::mlp_train_steps<missdiff::cuda::Device>));
}
