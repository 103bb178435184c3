// Runs the kernel of many training steps on the host, for tests/test_cuda_host_train_steps.py: block after block.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../csrc/cuda/kernels/mlp_train_steps.h"

using namespace missdiff;
using namespace missdiff::cuda;

namespace {

template <class Product>
void run(TrainArgs args, int64_t blocks) {
  using Steps = MlpTrainSteps<Product>;
  const size_t bytes = static_cast<size_t>(TrainTile::bytes(args));
  std::unique_ptr<char, decltype(&std::free)> tile(static_cast<char*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)),
                                                   &std::free);
  const auto shared = std::make_unique<typename Steps::Shared>();
  std::vector<float> gradients(static_cast<size_t>(args.row_blocks * args.size));
  std::vector<double> sums(static_cast<size_t>(args.row_blocks)), counts(sums);
  args.gradients = gradients.data();
  args.sums = sums.data();
  args.counts = counts.data();
  for (int64_t step = 0; step < args.steps; ++step) {
    for (int64_t block = 0; block < args.row_blocks; ++block) {
      std::memset(tile.get(), 0xFF, bytes);  // NaN in every type
      std::memset(static_cast<void*>(shared.get()), 0xFF, sizeof *shared);
      Steps::add_gradients(args, step, block, tile.get(), *shared);
    }
    for (int64_t block = 0; block < blocks; ++block) Steps::update(args, step, block, blocks, *shared);
  }
}

}  // namespace

extern "C" {

struct TrainStepsCall {
  int64_t num_continuous, num_categorical, width, stored, steps, num_rows, hidden, blocks, features, row_blocks,
      grid_blocks, precision, size;
  const int64_t* offsets;
  const float* continuous;
  const int16_t* codes;
  const float* values;
  const int64_t* rows;
  const uint8_t *states, *loss_states;
  const float *sigma, *weight, *level_features;
  const int64_t* keys;
  const double* schedule;
  const float* column_weight;
  float *weights, *exp_avg, *exp_avg_sq, *ema, *losses;
  double mean_weight;
};

static Columns columns_of(const TrainStepsCall& call) {
  return {static_cast<int>(call.num_continuous), static_cast<int>(call.num_categorical), static_cast<int>(call.width),
          call.offsets};
}

// The elements of the flat weights, as the kernel counts them.
int64_t host_train_size(const TrainStepsCall* call) {
  return TrainWeights(columns_of(*call), static_cast<int>(call->hidden), static_cast<int>(call->blocks),
                      static_cast<int>(call->features))
      .size;
}

void host_train_steps(const TrainStepsCall* call) {
  const Columns columns = columns_of(*call);
  const int64_t rows = call->steps * call->num_rows;
  const Batch<float> batch{columns,    call->continuous,  call->codes, call->values,
                           call->rows, call->loss_states, rows,        call->stored};
  TrainArgs args(TrainLoss::Args(batch, nullptr, call->weight, call->column_weight,
                                 static_cast<float>(call->mean_weight), nullptr, Tile{}, nullptr, nullptr));
  args.states = call->states;
  args.sigma = call->sigma;
  args.level_features = call->level_features;
  args.keys = call->keys;
  args.schedule = call->schedule;
  args.steps = call->steps;
  args.num_rows = call->num_rows;
  args.width = static_cast<int>(call->hidden);
  args.blocks = static_cast<int>(call->blocks);
  args.features = static_cast<int>(call->features);
  args.weights = call->weights;
  args.exp_avg = call->exp_avg;
  args.exp_avg_sq = call->exp_avg_sq;
  args.ema = call->ema;
  args.size = call->size;
  args.losses = call->losses;
  args.row_blocks = static_cast<int>(call->row_blocks);
  if (static_cast<TrainPrecision>(call->precision) == TrainPrecision::kTf32) {
    run<Tf32Once>(args, call->grid_blocks);
  } else {
    run<Tf32Thrice>(args, call->grid_blocks);
  }
}

}  // extern "C"
