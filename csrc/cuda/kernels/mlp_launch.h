// Launch plan of a pass of the network.
#pragma once

#include "mlp.h"

namespace missdiff::cuda {

enum class Precision : int { kFloat32, kBfloat16 };

struct MlpPlan {
  bool fits;              // whether the device has enough shared memory
  int warps;              // of a block
  int blocks;             // of the grid, which loop over the rows
  int64_t scratch_bytes;  // for `MlpArgs::scratch`; 0 if shared memory has room
};

constexpr int kMostPanels = 32;  // a width of 512

// Panels that a width is rounded up to; kernels are compiled for these sizes.
MISSDIFF_INLINE int padded_panels(int width) {
  const int sizes[] = {2, 4, 6, 8, 16, 24, 32};
  for (int size : sizes) {
    if (panels_of(width) <= size) return size;
  }
  return 0;
}

// Sizes of packed weights: vectors of `floats` floats, then tiles; see missdiff_fast.networks.packing_cuda.pack.
struct MlpWeights {
  int64_t floats, bytes;
};

MISSDIFF_INLINE MlpWeights mlp_weights(const Columns& columns, int width, int blocks, Precision precision) {
  const int panels = padded_panels(width), outputs = columns.width + columns.continuous;
  const int64_t tile = precision == Precision::kBfloat16 ? InBfloat16::kTileBytes : InFloat32::kTileBytes;
  MlpArgs whole{};
  whole.columns = columns;
  whole.blocks = blocks;
  whole.outputs = outputs;
  const int64_t floats = int64_t{panels} * kPanel * (1 + int64_t{4} * blocks) + int64_t{panels_of(outputs)} * kPanel;
  const int64_t chunks = (pass_tiles(whole, panels) * tile + kChunkBytes - 1) / kChunkBytes;
  return {floats, 4 * floats + chunks * kChunkBytes};
}

// Fills in the fields that follow from columns and network. 0 steps mean to predict.
MISSDIFF_INLINE void describe_mlp(MlpArgs& args, const char* weights, int width, int blocks, int steps,
                                  Precision precision) {
  const Columns& columns = args.columns;
  args.width = width;
  args.blocks = blocks;
  args.steps = steps;
  args.outputs = columns.width + (steps == 0 ? columns.continuous : 0);
  args.vectors = reinterpret_cast<const float*>(weights);
  args.tiles = weights + 4 * mlp_weights(columns, width, blocks, precision).floats;
  args.stride = cell_stride(columns.width);
  args.by_stride = Divider(args.stride);
  args.by_quads = Divider(columns.width > 0 ? (columns.width + 3) / 4 : 1);
  args.by_groups = Divider(columns.categorical > 0 ? columns.categorical : 1);
}

// Both return a cudaError_t. The plan is for the current device.
int plan_mlp(const MlpArgs& args, Precision precision, MlpPlan* plan);
int launch_mlp(MlpArgs args, Precision precision, const MlpPlan& plan, Stream stream);

}  // namespace missdiff::cuda
