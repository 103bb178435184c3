// Kernels of one precision. Each precision is instantiated in a file of its own, so that they compile in parallel.
#pragma once

#include "mlp_launch.h"
#include "mlp_narrow.h"
#include "mlp_wide.h"

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

template <class Product, int kEach>
__global__ void __launch_bounds__(kWideWarps* kLanes, 1) run_wide(const __grid_constant__ MlpArgs args) {
  using Mlp = MlpWide<Product, kEach>;
  check_columns(args.columns, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
  extern __shared__ __align__(16) char shared[];
  const int64_t bytes = cell_bytes(kWideRows, args.stride);
  char* memory = args.scratch == nullptr ? shared + sizeof(typename Mlp::Shared) : args.scratch + blockIdx.x * bytes;
  const Cells cells = make_cells(memory, kWideRows, args.stride);
  for (int64_t first = int64_t{blockIdx.x} * kWideRows; first < args.num_rows;
       first += int64_t{gridDim.x} * kWideRows) {
    Mlp::run_block(args, cells, *reinterpret_cast<typename Mlp::Shared*>(shared), first);
  }
}

struct MlpKernel {
  void (*run)(MlpArgs);
  int64_t shared_bytes;  // beside the cells
  bool wide;
};

template <class Product>
MlpKernel find_mlp_kernel(int width) {
  constexpr int64_t ring = kStages * kChunkBytes;
  switch (padded_panels(width)) {
    case 2:
      return {run_narrow<Product, 2>, ring, false};
    case 4:
      return {run_narrow<Product, 4>, ring, false};
    case 6:
      return {run_narrow<Product, 6>, ring, false};
    case 8:
      return {run_narrow<Product, 8>, ring, false};
    case 16:
      return {run_wide<Product, 2>, sizeof(typename MlpWide<Product, 2>::Shared), true};
    case 24:
      return {run_wide<Product, 3>, sizeof(typename MlpWide<Product, 3>::Shared), true};
    default:
      return {run_wide<Product, 4>, sizeof(typename MlpWide<Product, 4>::Shared), true};
  }
}

MlpKernel mlp_in_bfloat16(int width);
MlpKernel mlp_in_float32(int width);

}  // namespace missdiff::cuda
