// Many training steps of the default network in one launch; see missdiff_fast.ops.mlp_train_steps.
//
// The blocks of the grid are resident at once. In a step some of them each take tiles of 16 rows through the network
// and back, and write the gradients of their rows' loss, not yet divided by the count of observed cells. When all have
// arrived, every block adds up the gradients of its part of the weights, in the order of the blocks, and applies AdamW.
// When all have arrived again, the next step begins. The kernel is in mlp_train_steps.cu; the host's tests run the two
// parts of a step block after block.
#pragma once

#include "adamw.h"
#include "mlp_train_rows.h"

namespace missdiff::cuda {

template <class Product>
struct MlpTrainSteps {
  // A block's numbers in shared memory beside the tile.
  struct Shared {
    double losses[kThreads];
    double counts[kThreads];  // whole numbers
    AdamwFactors factors;
    double scale;
  };

  // Writes the gradients, loss and count of a block's rows in a step.
  MISSDIFF_INLINE void add_gradients(const TrainArgs& args, int64_t step, int64_t block, char* memory, Shared& shared) {
    const int64_t tiles = (args.num_rows + kTrainTileRows - 1) / kTrainTileRows;
    const TrainTile tile(args, memory);
    float* gradients = args.gradients + block * args.size;
    MISSDIFF_THREADS(thread) {
      map_columns(args.columns(), thread, kThreads, tile.map);
      shared.losses[thread] = 0.0;
      shared.counts[thread] = 0.0;
    }
    for (int64_t t = block; t < tiles; t += args.row_blocks) {
      MlpTrainRows<Product>::run(args, step, t * kTrainTileRows, t > block, tile, gradients, shared.losses,
                                 shared.counts);
    }
    block_barrier();
    MISSDIFF_THREADS(thread) {
      add_some(shared.losses, thread);
      add_some(shared.counts, thread);
    }
    block_barrier();
    MISSDIFF_THREADS(thread) {
      if (thread == 0) {
        args.sums[block] = add_rest(shared.losses);
        args.counts[block] = add_rest(shared.counts);
      }
    }
  }

  // Updates the weights of one of `blocks` equal parts.
  MISSDIFF_INLINE void update(const TrainArgs& args, int64_t step, int64_t block, int64_t blocks, Shared& shared) {
    MISSDIFF_THREADS(thread) {
      if (thread == 0) {
        double loss = 0.0, count = 0.0;
        for (int other = 0; other < args.row_blocks; ++other) {
          loss += args.sums[other];
          count += args.counts[other];
        }
        shared.scale = 1.0 / (count < 1.0 ? 1.0 : count);
        shared.factors = scheduled_factors(args.schedule + 3 * step);
        if (block == 0) args.losses[step] = static_cast<float>(loss * shared.scale);
      }
    }
    block_barrier();
    MISSDIFF_THREADS(thread) {
      const float scale = static_cast<float>(shared.scale);
      for (int64_t at = 4 * (block * kThreads + thread); at < args.size; at += 4 * blocks * kThreads) {
        update_four(args, at, scale, shared.factors);
      }
    }
    block_barrier();  // before the next step's sums
  }

 private:
  MISSDIFF_INLINE void update_four(const TrainArgs& args, int64_t at, float scale, const AdamwFactors& factors) {
    Four gradient{};
    for (int block = 0; block < args.row_blocks; ++block) {
      const Four own = load_as<Four>(args.gradients + block * args.size + at);
      MISSDIFF_UNROLL(4)
      for (int j = 0; j < 4; ++j) gradient.v[j] += own.v[j];
    }
    Four weight = load_as<Four>(args.weights + at), exp_avg = load_as<Four>(args.exp_avg + at);
    Four exp_avg_sq = load_as<Four>(args.exp_avg_sq + at), ema = load_as<Four>(args.ema + at);
    MISSDIFF_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      adamw_weight(factors, scale * gradient.v[j], weight.v[j], exp_avg.v[j], exp_avg_sq.v[j], ema.v[j]);
    }
    store_as(args.weights + at, weight);
    store_as(args.exp_avg + at, exp_avg);
    store_as(args.exp_avg_sq + at, exp_avg_sq);
    store_as(args.ema + at, ema);
  }
};

enum class TrainPrecision : int { kFloat32, kTf32 };

struct TrainPlan {
  int blocks;             // of the grid
  int row_blocks;         // those of them that take rows
  int64_t scratch_bytes;  // for `TrainArgs::scratch`; 0 if shared memory has room
};

// Both return a cudaError_t. The plan is for the current device.
int plan_train_steps(const TrainArgs& args, TrainPrecision precision, TrainPlan* plan);
int launch_train_steps(const TrainArgs& args, TrainPrecision precision, const TrainPlan& plan, Stream stream);

}  // namespace missdiff::cuda
