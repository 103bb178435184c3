#include "mlp_train_steps.h"

namespace missdiff::cuda {
namespace {

constexpr int kMostRowBlocks = 32;  // each adds its gradients, which every step reads: more blocks read more
constexpr int kUpdateBlocks = 64;   // that share the weights' update

// Waits until all blocks of the grid have arrived `times` times. Writes before it are seen by all threads after it.
__device__ __forceinline__ void grid_barrier(unsigned long long* arrived, unsigned long long times) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1ull);
    while (*reinterpret_cast<volatile unsigned long long*>(arrived) < times * gridDim.x) __nanosleep(20);
    __threadfence();
  }
  __syncthreads();
}

template <class Product, bool kInShared>
__global__ void __launch_bounds__(kThreads, 1) run_train_steps(const __grid_constant__ TrainArgs args) {
  extern __shared__ __align__(16) char memory[];
  __shared__ typename MlpTrainSteps<Product>::Shared shared;
  const int64_t block = blockIdx.x;
  char* tile = kInShared ? memory : args.scratch + block * TrainTile::bytes(args);
  for (int64_t step = 0; step < args.steps; ++step) {
    if (block < args.row_blocks) MlpTrainSteps<Product>::add_gradients(args, step, block, tile, shared);
    grid_barrier(args.arrived, 2 * step + 1);
    MlpTrainSteps<Product>::update(args, step, block, gridDim.x, shared);
    grid_barrier(args.arrived, 2 * step + 2);
  }
}

const void* find(TrainPrecision precision, bool in_shared) {
  if (precision == TrainPrecision::kTf32) {
    return in_shared ? reinterpret_cast<const void*>(run_train_steps<Tf32Once, true>)
                     : reinterpret_cast<const void*>(run_train_steps<Tf32Once, false>);
  }
  return in_shared ? reinterpret_cast<const void*>(run_train_steps<Tf32Thrice, true>)
                   : reinterpret_cast<const void*>(run_train_steps<Tf32Thrice, false>);
}

}  // namespace

int plan_train_steps(const TrainArgs& args, TrainPrecision precision, TrainPlan* plan) {
  int device = 0, processors = 0, most_bytes = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = most_dynamic_memory(find(precision, true), &most_bytes);
  if (error != cudaSuccess) return error;
  const int64_t bytes = TrainTile::bytes(args);
  const bool in_shared = bytes <= most_bytes;
  const int64_t tiles = (args.num_rows + kTrainTileRows - 1) / kTrainTileRows;
  const int most = processors < kMostRowBlocks ? processors : kMostRowBlocks;
  plan->row_blocks = tiles < 1 ? 1 : static_cast<int>(tiles < most ? tiles : most);
  plan->blocks = processors < kUpdateBlocks ? processors : kUpdateBlocks;
  if (plan->blocks < plan->row_blocks) plan->blocks = plan->row_blocks;
  plan->scratch_bytes = in_shared ? 0 : plan->row_blocks * bytes;
  return in_shared ? allow_shared_memory(find(precision, true)) : cudaSuccess;
}

// A cooperative launch fails where the blocks cannot all be resident, so that a barrier never waits in vain.
int launch_train_steps(const TrainArgs& args, TrainPrecision precision, const TrainPlan& plan, Stream stream) {
  const bool in_shared = plan.scratch_bytes == 0;
  TrainArgs copy = args;
  void* arguments[] = {&copy};
  const size_t bytes = in_shared ? static_cast<size_t>(TrainTile::bytes(args)) : 0;
  const cudaError_t error = cudaLaunchCooperativeKernel(find(precision, in_shared), dim3(plan.blocks), dim3(kThreads),
                                                        arguments, bytes, stream);
  return error == cudaSuccess ? cudaGetLastError() : error;
}

}  // namespace missdiff::cuda
