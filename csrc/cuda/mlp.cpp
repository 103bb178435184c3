#include "../calls/mlp.h"

#include "device.h"
#include "kernels/mlp_launch.h"

namespace missdiff::cuda {
namespace {

// Starts the network's kernel; `args` holds what only one of the calls has. No steps predict.
void start(const Device& device, const NetworkTensors<Device>& network, int64_t steps, MlpArgs args) {
  const Precision precision = static_cast<Precision>(network.precision);
  args.columns = network.columns.get();
  args.sigmas = data<float>(network.sigmas);
  args.shifts = data<float>(network.shifts);
  args.states = data<uint8_t>(network.states);
  args.x = data<float>(network.x);
  args.num_rows = network.num_rows();
  describe_mlp(args, data<char>(network.weights), static_cast<int>(network.width()), static_cast<int>(network.blocks()),
               static_cast<int>(steps), precision);
  MlpPlan plan{};
  device.check_launch(plan_mlp(args, precision, &plan));
  STD_TORCH_CHECK(plan.fits, "a network ", args.width, " wide has no room in the shared memory of device ",
                  device.index(), " at this precision; use bfloat16");
  std::optional<Tensor> scratch;
  if (plan.scratch_bytes > 0) {
    scratch = device.empty(network.x, {plan.scratch_bytes}, ScalarType::Byte);
    args.scratch = mutable_data<char>(*scratch);
  }
  device.check_launch(launch_mlp(args, precision, plan, device.stream()));
}

}  // namespace

void check_weights(const NetworkTensors<Device>& network) {
  STD_TORCH_CHECK(network.precision == 0 || network.precision == 1,
                  "precision must be 0 (float32) or 1 (bfloat16), not ", network.precision);
  check_type(network.weights, "weights", {ScalarType::Byte});
  const Columns& columns = network.columns.get();
  const int64_t W = network.width(), most = kMostPanels * kPanel;
  STD_TORCH_CHECK(W <= most, "the network is ", W, " wide; on a CUDA device it may be 1 to ", most);
  STD_TORCH_CHECK(network.blocks() < 1 << 16, "the network has ", network.blocks(), " blocks, too many for a kernel");
  STD_TORCH_CHECK(columns.width < 1 << 16, "encoded rows of ", columns.width,
                  " columns are wider than a kernel can take");
  const int64_t wanted = mlp_weights(columns, static_cast<int>(W), static_cast<int>(network.blocks()),
                                     static_cast<Precision>(network.precision))
                             .bytes;
  STD_TORCH_CHECK(network.weights.size(0) == wanted, "weights hold ", network.weights.size(0), " bytes, not the ",
                  wanted, " of a network of this width and precision");
}

void launch(const MlpSampleCall<Device>& call) {
  MlpArgs args{};
  args.coefficients = data<float>(call.coefficients);
  args.keys = data<int64_t>(call.keys);
  args.rows = data<int64_t>(call.rows);
  args.out = mutable_data<float>(call.out);
  start(call.device, call.network, call.network.sigmas.size(0), args);
}

void launch(const MlpPredictCall<Device>& call) {
  MlpArgs args{};
  args.out = mutable_data<float>(call.out);
  start(call.device, call.network, 0, args);
}

}  // namespace missdiff::cuda

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("mlp_sample", TORCH_BOX(&missdiff::mlp_sample<missdiff::cuda::Device>));
  m.impl("mlp_predict", TORCH_BOX(&missdiff::mlp_predict<missdiff::cuda::Device>));
}
