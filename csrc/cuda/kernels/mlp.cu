#include "mlp.cuh"

namespace missdiff::cuda {
namespace {

constexpr int kFewWarps = 4;  // with fewer the cells go to global memory instead

MlpKernel find(const MlpArgs& args, Precision precision) {
  return precision == Precision::kBfloat16 ? mlp_in_bfloat16(args.width) : mlp_in_float32(args.width);
}

int64_t cells_of_block(const MlpArgs& args, const MlpKernel& kernel, int warps) {
  return kernel.wide ? cell_bytes(kWideRows, args.stride) : warps * cell_bytes(kPanel, args.stride);
}

}  // namespace

int plan_mlp(const MlpArgs& args, Precision precision, MlpPlan* plan) {
  int device = 0, processors = 0, most_bytes = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (error != cudaSuccess) return error;
  const MlpKernel kernel = find(args, precision);
  const int64_t room = most_bytes - kernel.shared_bytes;
  plan->fits = room >= 0;
  if (!plan->fits) return cudaSuccess;
  bool shared = true;
  if (kernel.wide) {
    plan->warps = kWideWarps;
    shared = cells_of_block(args, kernel, plan->warps) <= room;
  } else {
    const int64_t fit = room / cell_bytes(kPanel, args.stride);
    shared = fit >= kFewWarps;
    plan->warps = shared && fit < kMostWarps ? static_cast<int>(fit) : kMostWarps;
    // Spread a small batch over all multiprocessors.
    const int64_t strips = (args.num_rows + kPanel - 1) / kPanel, share = (strips + processors - 1) / processors;
    if (share < plan->warps) plan->warps = static_cast<int>(share < 1 ? 1 : share);
  }
  const int64_t rows = kernel.wide ? kWideRows : plan->warps * kPanel, blocks = (args.num_rows + rows - 1) / rows;
  const int64_t bytes = kernel.shared_bytes + (shared ? cells_of_block(args, kernel, plan->warps) : 0);
  error = allow_shared_memory(reinterpret_cast<const void*>(kernel.run));
  int resident = 0;
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel.run, plan->warps * kLanes,
                                                          static_cast<size_t>(bytes));
  }
  if (error != cudaSuccess) return error;
  if (resident < 1) return cudaErrorInvalidConfiguration;
  const int64_t most = static_cast<int64_t>(processors) * resident;
  plan->blocks = static_cast<int>(blocks < most ? blocks : most);
  plan->scratch_bytes = shared ? 0 : plan->blocks * cells_of_block(args, kernel, plan->warps);
  return cudaSuccess;
}

int launch_mlp(MlpArgs args, Precision precision, const MlpPlan& plan, Stream stream) {
  if (plan.blocks == 0) return cudaSuccess;
  const MlpKernel kernel = find(args, precision);
  args.warps = plan.warps;
  const int64_t bytes = kernel.shared_bytes + (args.scratch == nullptr ? cells_of_block(args, kernel, plan.warps) : 0);
  kernel.run<<<static_cast<unsigned>(plan.blocks), plan.warps * kLanes, static_cast<size_t>(bytes), stream>>>(args);
  return cudaGetLastError();
}

}  // namespace missdiff::cuda
