// Kernels of one precision. Each precision is instantiated in a file of its own, so that they compile in parallel.
#pragma once

#include "mlp_launch.h"

namespace missdiff::cuda {

template <class Product, int kPanels>
__global__ void __launch_bounds__(kMostWarps* kLanes, 1) run_narrow(const __grid_constant__ MlpArgs args) {
  extern __shared__ __align__(16) char shared[];
  check_columns(args.columns, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  using Mlp = MlpNarrow<Product, kPanels>;
  using Stream = typename Mlp::Stream;
  const int warp = static_cast<int>(threadIdx.x) / kLanes, warps = args.warps;
  const int64_t bytes = cell_bytes(kPanel, args.stride), of_grid = int64_t{blockIdx.x} * warps + warp;
  char* memory = args.shared_cells ? shared + kStages * Stream::kBytes + warp * bytes : args.scratch + of_grid * bytes;
  char* starts = args.scratch;
  if (args.scratch != nullptr) {
    starts += (args.shared_cells ? 0 : int64_t{gridDim.x} * warps * bytes) + of_grid * start_bytes(kPanels);
  }
  const Cells cells = make_cells(memory, kPanel, args.stride);
  Stream stream(args, shared, warps * kLanes);
  const int64_t rows = int64_t{warps} * kPanel;
  for (int64_t first = blockIdx.x * rows; first < args.num_rows; first += gridDim.x * rows) {
    Mlp::run_warp(args, cells, starts, first + warp * kPanel, stream);
  }
  stream.finish();
}

template <class Product, int kEach, int kStrips>
__global__ void __launch_bounds__(kWideWarps* kLanes, 1) run_wide(const __grid_constant__ MlpArgs args) {
  using Mlp = MlpWide<Product, kEach, kStrips>;
  check_columns(args.columns, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  extern __shared__ __align__(16) char shared[];
  const int64_t bytes = cell_bytes(Mlp::kRows, args.stride);
  char* memory = args.shared_cells ? shared + sizeof(typename Mlp::Shared) : args.scratch + blockIdx.x * bytes;
  const Cells cells = make_cells(memory, Mlp::kRows, args.stride);
  for (int64_t first = int64_t{blockIdx.x} * Mlp::kRows; first < args.num_rows;
       first += int64_t{gridDim.x} * Mlp::kRows) {
    Mlp::run_block(args, cells, *reinterpret_cast<typename Mlp::Shared*>(shared), first);
  }
}

using MlpKernel = void (*)(MlpArgs);

// A narrow network's kernel, or a wide one's for two strips.
template <class Product, class WideProduct>
MlpKernel find_mlp_kernel(int width) {
  switch (padded_panels(width)) {
    case 2:
      return run_narrow<Product, 2>;
    case 4:
      return run_narrow<Product, 4>;
    case 6:
      return run_narrow<Product, 6>;
    case 8:
      return run_narrow<Product, 8>;
    case 16:
      return run_wide<WideProduct, 2, 2>;
    case 24:
      return run_wide<WideProduct, 3, 2>;
    default:
      return run_wide<WideProduct, 4, 2>;
  }
}

// `strips` as in `MlpPlan`, which has two of them in float32.
MlpKernel mlp_in_bfloat16(int width, int strips);
MlpKernel mlp_in_float32(int width);

}  // namespace missdiff::cuda
