#include "mlp.cuh"

namespace missdiff::cuda {
namespace {

MlpKernel find(const MlpArgs& args, Precision precision, int strips) {
  return precision == Precision::kBfloat16 ? mlp_in_bfloat16(args.width, strips) : mlp_in_float32(args.width, strips);
}

}  // namespace

int plan_mlp(const MlpArgs& args, Precision precision, MlpPlan* plan) {
  int index = 0, most_bytes = 0;
  MlpDevice device{};
  cudaError_t error = cudaGetDevice(&index);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&device.processors, cudaDevAttrMultiProcessorCount, index);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, index);
  }
  if (error != cudaSuccess) return error;
  device.block_bytes = most_bytes;
  *plan = plan_block(args, precision, device);
  if (!plan->fits) return cudaSuccess;
  const MlpKernel kernel = find(args, precision, plan->strips);
  error = allow_shared_memory(reinterpret_cast<const void*>(kernel));
  int resident = 0;
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, plan->warps * kLanes,
                                                          static_cast<size_t>(plan->shared_bytes));
  }
  if (error != cudaSuccess) return error;
  if (resident < 1) return cudaErrorInvalidConfiguration;
  const int64_t blocks = (args.num_rows + block_rows(*plan) - 1) / block_rows(*plan);
  const int64_t most = static_cast<int64_t>(device.processors) * resident;
  plan->blocks = static_cast<int>(blocks < most ? blocks : most);
  plan->scratch_bytes = plan->shared_cells ? 0 : plan->blocks * block_cells(args, *plan);
  return cudaSuccess;
}

int launch_mlp(MlpArgs args, Precision precision, const MlpPlan& plan, Stream stream) {
  if (plan.blocks == 0) return cudaSuccess;
  args.warps = plan.warps;
  const MlpKernel kernel = find(args, precision, plan.strips);
  kernel<<<static_cast<unsigned>(plan.blocks), plan.warps * kLanes, static_cast<size_t>(plan.shared_bytes), stream>>>(
      args);
  return cudaGetLastError();
}

}  // namespace missdiff::cuda
