// Kernels of one precision. Each precision is instantiated in a file of its own, so that they compile in parallel.
#pragma once

#include "mlp_launch.h"

namespace missdiff::cuda {

template <class Product, int kPanels>
__global__ void __launch_bounds__(kMostWarps* kLanes, 1) run_narrow(const __grid_constant__ MlpArgs args) {
  extern __shared__ __align__(16) char shared[];
  check_columns(args.columns, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  const int warp = static_cast<int>(threadIdx.x) / kLanes, warps = args.warps;
  const int64_t bytes = cell_bytes(kPanel, args.stride);
  char* memory = args.scratch == nullptr ? shared + kStages * kChunkBytes + warp * bytes
                                         : args.scratch + (int64_t{blockIdx.x} * warps + warp) * bytes;
  const Cells cells = make_cells(memory, kPanel, args.stride);
  TileStream<Product> stream(args.tiles, pass_tiles(args, kPanels), shared, warps * kLanes);
  const int64_t rows = int64_t{warps} * kPanel;
  for (int64_t first = blockIdx.x * rows; first < args.num_rows; first += gridDim.x * rows) {
    MlpNarrow<Product, kPanels>::run_warp(args, cells, first + warp * kPanel, stream);
  }
  stream.finish();
}

template <class Product, int kEach, int kStrips>
__global__ void __launch_bounds__(kWideWarps* kLanes, 1) run_wide(const __grid_constant__ MlpArgs args) {
  using Mlp = MlpWide<Product, kEach, kStrips>;
  check_columns(args.columns, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  extern __shared__ __align__(16) char shared[];
  const int64_t bytes = cell_bytes(Mlp::kRows, args.stride);
  char* memory = args.scratch == nullptr ? shared + sizeof(typename Mlp::Shared) : args.scratch + blockIdx.x * bytes;
  const Cells cells = make_cells(memory, Mlp::kRows, args.stride);
  for (int64_t first = int64_t{blockIdx.x} * Mlp::kRows; first < args.num_rows;
       first += int64_t{gridDim.x} * Mlp::kRows) {
    Mlp::run_block(args, cells, *reinterpret_cast<typename Mlp::Shared*>(shared), first);
  }
}

using MlpKernel = void (*)(MlpArgs);

// A narrow network's kernel, or a wide one's for two strips.
template <class Product>
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
      return run_wide<Product, 2, 2>;
    case 24:
      return run_wide<Product, 3, 2>;
    default:
      return run_wide<Product, 4, 2>;
  }
}

// `strips` as in `MlpPlan`.
MlpKernel mlp_in_bfloat16(int width, int strips);
MlpKernel mlp_in_float32(int width, int strips);

}  // namespace missdiff::cuda
