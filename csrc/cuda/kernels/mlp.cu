#include "mlp.cuh"

namespace missdiff::cuda {
namespace {

MlpKernel find(const MlpArgs& args, Precision precision, int strips) {
  return precision == Precision::kBfloat16 ? mlp_in_bfloat16(args.width, strips) : mlp_in_float32(args.width);
}

}  // namespace

int plan_mlp(const MlpArgs& args, Precision precision, MlpPlan* plan) {
  int index = 0, block_bytes = 0, processor_bytes = 0, reserved_bytes = 0;
  MlpDevice device{};
  cudaError_t error = cudaGetDevice(&index);
  const auto ask = [&](int* value, cudaDeviceAttr attribute) {
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(value, attribute, index);
  };
  ask(&device.processors, cudaDevAttrMultiProcessorCount);
  ask(&block_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  ask(&processor_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  ask(&reserved_bytes, cudaDevAttrReservedSharedMemoryPerBlock);
  if (error != cudaSuccess) return error;
  device.block_bytes = block_bytes;
  device.processor_bytes = processor_bytes;
  device.reserved_bytes = reserved_bytes;
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
  plan->scratch_bytes = plan->blocks * block_scratch(args, *plan);
  return cudaSuccess;
}

int launch_mlp(MlpArgs args, Precision precision, const MlpPlan& plan, Stream stream) {
  if (plan.blocks == 0) return cudaSuccess;
  args.warps = plan.warps;
  args.shared_cells = plan.shared_cells;
  const MlpKernel kernel = find(args, precision, plan.strips);
  kernel<<<static_cast<unsigned>(plan.blocks), plan.warps * kLanes, static_cast<size_t>(plan.shared_bytes), stream>>>(
      args);
  return cudaGetLastError();
}

}  // namespace missdiff::cuda
