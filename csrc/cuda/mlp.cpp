#include "kernels/mlp_launch.h"
#include "launch.h"

namespace missdiff {
namespace {

// A network and a batch of rows, kept alive until the kernel is started.
struct Network {
  Tensor x, states, weights, offsets, levels, shifts;
  MlpArgs args{};

  Network(const Tensor& x_, const Tensor& states_, const Tensor& weights_, const Tensor& offsets_,
          const Tensor& levels_, const Tensor& shifts_, int64_t precision, bool predict) {
    check_type(x_, "x", {ScalarType::Float});
    check_shape(x_, "x", {-1, -1});
    check_type(states_, "states", {ScalarType::Byte});
    check_shape(states_, "states", {x_.size(0), -1});
    check_type(weights_, "weights", {ScalarType::Byte});
    check_shape(weights_, "weights", {-1});
    check_type(levels_, "levels", {ScalarType::Float});
    check_shape(levels_, "levels", {predict ? 1 : -1});
    check_type(shifts_, "shifts", {ScalarType::Float});
    check_shape(shifts_, "shifts", {levels_.size(0), -1, -1});
    check_device(x_, states_, "states");
    check_device(x_, weights_, "weights");
    check_device(x_, offsets_, "offsets");
    check_device(x_, levels_, "levels");
    check_device(x_, shifts_, "shifts");
    STD_TORCH_CHECK(precision == 0 || precision == 1, "precision must be 0 (float32) or 1 (bfloat16), not ", precision);
    const int64_t W = shifts_.size(2), most = kMostPanels * kPanel;
    STD_TORCH_CHECK(1 <= W && W <= most, "the network is ", W, " wide; on a CUDA device it may be 1 to ", most);
    STD_TORCH_CHECK(shifts_.size(1) < 1 << 16, "the network has ", shifts_.size(1), " blocks, too many for a kernel");
    STD_TORCH_CHECK(x_.size(1) < 1 << 16, "encoded rows of ", x_.size(1), " columns are wider than a kernel can take");
    x = torch::stable::contiguous(x_);
    states = torch::stable::contiguous(states_);
    weights = packed(weights_);
    offsets = torch::stable::contiguous(offsets_);
    levels = torch::stable::contiguous(levels_);
    shifts = torch::stable::contiguous(shifts_);
    args.columns = read_columns(offsets, states_.size(1), x_.size(1));
    args.levels = data<float>(levels);
    args.shifts = data<float>(shifts);
    args.states = data<uint8_t>(states);
    args.x = data<float>(x);
    args.num_rows = x.size(0);
    const int64_t wanted = mlp_weights(args.columns, static_cast<int>(W), static_cast<int>(shifts.size(1)),
                                       static_cast<Precision>(precision))
                               .bytes;
    STD_TORCH_CHECK(weights.size(0) == wanted, "weights hold ", weights.size(0), " bytes, not the ", wanted,
                    " of a network of this width and precision");
    describe_mlp(args, data<char>(weights), static_cast<int>(W), static_cast<int>(shifts.size(1)),
                 predict ? 0 : static_cast<int>(levels.size(0)), static_cast<Precision>(precision));
  }

  void run(int64_t precision, const Device& device) {
    if (args.num_rows == 0 || args.outputs == 0) return;
    MlpPlan plan{};
    device.check(plan_mlp(args, static_cast<Precision>(precision), &plan));
    STD_TORCH_CHECK(plan.fits, "a network ", args.width, " wide has no room in the shared memory of device ",
                    x.get_device_index(), " at this precision; use bfloat16");
    std::optional<Tensor> scratch;
    if (plan.scratch_bytes > 0) {
      scratch = empty(x, {plan.scratch_bytes}, ScalarType::Byte);
      args.scratch = data<char>(*scratch);
    }
    device.check(launch_mlp(args, static_cast<Precision>(precision), plan, device.stream()));
  }
};

Tensor mlp_sample(const Tensor& x,             // [B, D]
                  const Tensor& states,        // [B, J]
                  const Tensor& weights,       // packed in tiles
                  const Tensor& offsets,       // [K + 1]
                  const Tensor& levels,        // [steps]
                  const Tensor& shifts,        // [steps, blocks, W]
                  const Tensor& coefficients,  // [steps, 4]
                  const Tensor& rows,          // [B]
                  const Tensor& keys,          // [steps, 2]
                  int64_t precision) {
  const Device device(x);
  const int64_t steps = levels.dim() > 0 ? levels.size(0) : 0;
  if (steps == 0) return torch::stable::clone(x);
  Network network(x, states, weights, offsets, levels, shifts, precision, false);
  check_type(coefficients, "coefficients", {ScalarType::Float});
  check_shape(coefficients, "coefficients", {steps, 4});
  check_device(x, coefficients, "coefficients");
  check_type(keys, "keys", {ScalarType::Long});
  check_shape(keys, "keys", {steps, 2});
  check_device(x, keys, "keys");
  const Tensor coefficients_ = torch::stable::contiguous(coefficients), keys_ = torch::stable::contiguous(keys);
  const Tensor rows_ = read_vector(x, rows, "rows", ScalarType::Long, x.size(0));
  Tensor out = empty(x, {x.size(0), x.size(1)}, ScalarType::Float);
  network.args.coefficients = data<float>(coefficients_);
  network.args.keys = data<int64_t>(keys_);
  network.args.rows = data<int64_t>(rows_);
  network.args.out = data<float>(out);
  network.run(precision, device);
  return out;
}

Tensor mlp_predict(const Tensor& x, const Tensor& states, const Tensor& weights, const Tensor& offsets,
                   const Tensor& level,  // [1]
                   const Tensor& shifts, int64_t precision) {
  const Device device(x);
  Network network(x, states, weights, offsets, level, shifts, precision, true);
  Tensor out = empty(x, {x.size(0), network.args.outputs}, ScalarType::Float);
  network.args.out = data<float>(out);
  network.run(precision, device);
  return out;
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("mlp_sample", TORCH_BOX(&missdiff::mlp_sample));
  m.impl("mlp_predict", TORCH_BOX(&missdiff::mlp_predict));
}
