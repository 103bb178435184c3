#include "launch.h"

namespace missdiff {
namespace {

int64_t encoded_width(const Tensor& x) {
  check_shape(x, "x", {-1, -1});
  return x.size(1);
}

// A network and a batch of rows, kept alive while a kernel reads them.
struct Network {
  OwnedColumns owned;
  Tensor x, states, weights, levels, shifts;
  MlpArgs args{};

  Network(const Tensor& x_, const Tensor& states_, const Tensor& weights_, const Tensor& offsets, const Tensor& levels_,
          const Tensor& shifts_)
      : owned(offsets, encoded_width(x_)) {
    const Columns& columns = owned.get();
    check_type(x_, "x", {ScalarType::Float});
    check_shape(x_, "x", {-1, columns.width});
    check_type(states_, "states", {ScalarType::Byte});
    check_shape(states_, "states", {x_.size(0), columns.continuous + columns.categorical});
    check_type(weights_, "weights", {ScalarType::Float});
    check_shape(weights_, "weights", {-1});
    check_type(levels_, "levels", {ScalarType::Float});
    check_shape(levels_, "levels", {-1});
    check_type(shifts_, "shifts", {ScalarType::Float});
    check_shape(shifts_, "shifts", {levels_.size(0), -1, -1});
    x = torch::stable::contiguous(x_);
    states = torch::stable::contiguous(states_);
    weights = torch::stable::contiguous(weights_);
    levels = torch::stable::contiguous(levels_);
    shifts = torch::stable::contiguous(shifts_);
    args.columns = columns;
    args.weights = weights.const_data_ptr<float>();
    args.blocks = shifts.size(1);
    args.width = shifts.size(2);
    args.steps = levels.size(0);
    args.levels = levels.const_data_ptr<float>();
    args.shifts = shifts.const_data_ptr<float>();
    args.states = states.const_data_ptr<uint8_t>();
    args.x = x.const_data_ptr<float>();
    args.num_rows = x.size(0);
    STD_TORCH_CHECK(args.width >= 1, "shifts must be [steps, blocks, width] with a width of at least 1");
    const int64_t W = whole_panels(args.width), J = columns.continuous + columns.categorical;
    const int64_t outputs = whole_panels(columns.width + columns.continuous);
    const int64_t wanted =
        (columns.width + 2 * J + 1) * W + args.blocks * mlp_block_floats(args.width) + (args.width + 1) * outputs;
    STD_TORCH_CHECK(reinterpret_cast<uintptr_t>(args.weights) % 64 == 0, "weights must be aligned to 64 bytes");
    STD_TORCH_CHECK(weights.size(0) == wanted, "weights hold ", weights.size(0), " numbers, not the ", wanted,
                    " of a network of this width");
  }

  void run(int (*kernel)(const MlpArgs&, int64_t, int64_t, char*)) const {
    const size_t bytes = mlp_scratch_bytes(args.columns, args.width);
    if (args.columns.width == 0) return;  // nothing to write
    torch::stable::parallel_for(0, (args.num_rows + kMlpRows - 1) / kMlpRows, 1, [&](int64_t begin, int64_t end) {
      ThreadMemory memory(bytes);
      kernel(args, begin, end, memory.get());
    });
  }
};

constexpr int64_t kFloat32 = 0;  // the only precision of a CPU's kernels, in the numbers of the CUDA ones

void check_precision(int64_t precision) {
  STD_TORCH_CHECK(precision == kFloat32, "on the CPU precision must be 0 (float32), not ", precision);
}

Tensor mlp_sample(const Tensor& x,             // [B, D]
                  const Tensor& states,        // [B, J]
                  const Tensor& weights,       // packed
                  const Tensor& offsets,       // [K + 1]
                  const Tensor& levels,        // [steps]
                  const Tensor& shifts,        // [steps, blocks, W]
                  const Tensor& coefficients,  // [steps, 4]
                  const Tensor& rows,          // [B]
                  const Tensor& keys,          // [steps, 2]
                  int64_t precision) {
  check_precision(precision);
  Network network(x, states, weights, offsets, levels, shifts);
  const int64_t steps = network.args.steps;
  check_type(coefficients, "coefficients", {ScalarType::Float});
  check_shape(coefficients, "coefficients", {steps, 4});
  check_type(rows, "rows", {ScalarType::Long});
  check_shape(rows, "rows", {x.size(0)});
  check_type(keys, "keys", {ScalarType::Long});
  check_shape(keys, "keys", {steps, 2});
  const Tensor coefficients_ = torch::stable::contiguous(coefficients), rows_ = torch::stable::contiguous(rows);
  const Tensor keys_ = torch::stable::contiguous(keys);
  Tensor out = allocate(x, {x.size(0), x.size(1)}, ScalarType::Float);
  network.args.coefficients = coefficients_.const_data_ptr<float>();
  network.args.rows = rows_.const_data_ptr<int64_t>();
  network.args.keys = keys_.const_data_ptr<int64_t>();
  network.args.out = out.mutable_data_ptr<float>();
  network.run(kernels().mlp_sample);
  return out;
}

Tensor mlp_predict(const Tensor& x, const Tensor& states, const Tensor& weights, const Tensor& offsets,
                   const Tensor& level,  // [1]
                   const Tensor& shifts, int64_t precision) {
  check_precision(precision);
  Network network(x, states, weights, offsets, level, shifts);
  check_shape(level, "level", {1});
  Tensor out = allocate(x, {x.size(0), x.size(1) + network.args.columns.continuous}, ScalarType::Float);
  network.args.out = out.mutable_data_ptr<float>();
  network.run(kernels().mlp_predict);
  return out;
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) {
  m.impl("mlp_sample", TORCH_BOX(&missdiff::mlp_sample));
  m.impl("mlp_predict", TORCH_BOX(&missdiff::mlp_predict));
}
