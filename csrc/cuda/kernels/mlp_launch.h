// Launch plan of a pass of the network.
#pragma once

#include "mlp_narrow.h"
#include "mlp_wide.h"

namespace missdiff::cuda {

enum class Precision : int { kFloat32, kBfloat16 };

struct MlpPlan {
  bool fits;              // whether the device has enough shared memory
  int strips;             // of 16 rows, of a wide network's block; 0 for a narrow one, whose warps have one strip each
  int warps;              // of a block
  bool shared_cells;      // whether the cells are in shared memory, else in `MlpArgs::scratch`
  int64_t shared_bytes;   // of a block
  int blocks;             // of the grid, which loop over the rows
  int64_t scratch_bytes;  // for `MlpArgs::scratch`
};

constexpr int kNarrowPanels = 8;  // a width of 128, the most of mlp_narrow.h
constexpr int kMostPanels = 32;   // a width of 512

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

// Rows of a block, and bytes of its cells.
MISSDIFF_INLINE int block_rows(const MlpPlan& plan) { return kPanel * (plan.strips > 0 ? plan.strips : plan.warps); }
MISSDIFF_INLINE int64_t block_cells(const MlpArgs& args, const MlpPlan& plan) {
  return plan.strips > 0 ? cell_bytes(block_rows(plan), args.stride) : plan.warps * cell_bytes(kPanel, args.stride);
}

// What a plan needs to know of a device.
struct MlpDevice {
  int processors;
  int64_t block_bytes;  // shared memory that a block may have
};

constexpr int kFewWarps = 4;  // with fewer the cells go to global memory instead
constexpr int kMostStrips = 4;

// Whether blocks of four strips are compiled: where their factors fit in some device's shared memory, and their sums in
// registers.
MISSDIFF_INLINE bool has_four_strips(Precision precision) { return precision == Precision::kBfloat16; }

// A plan without `blocks` and `scratch_bytes`, which depend on how many blocks a multiprocessor holds.
MISSDIFF_INLINE MlpPlan plan_block(const MlpArgs& args, Precision precision, const MlpDevice& device) {
  const int panels = padded_panels(args.width);
  const bool bfloat16 = precision == Precision::kBfloat16;
  MlpPlan plan{};
  int64_t bytes = kStages * kChunkBytes;
  if (panels > kNarrowPanels) {
    const int64_t left = bfloat16 ? sizeof(InBfloat16::Left) : sizeof(InFloat32::Left);
    plan.warps = kWideWarps;
    plan.strips = kMostStrips;
    bytes = wide_bytes(left, panels, plan.strips);
    // Rows too few for every multiprocessor to have a block of four strips take two.
    const bool few = args.num_rows < int64_t{device.processors} * block_rows(plan);
    if (few || !has_four_strips(precision) || bytes > device.block_bytes) {
      plan.strips = 2;
      bytes = wide_bytes(left, panels, plan.strips);
    }
  } else {
    plan.warps = kMostWarps;
  }
  const int64_t room = device.block_bytes - bytes;
  plan.fits = room >= 0;
  if (!plan.fits) return plan;
  if (plan.strips > 0) {
    plan.shared_cells = block_cells(args, plan) <= room;
  } else {
    const int64_t fit = room / cell_bytes(kPanel, args.stride);
    plan.shared_cells = fit >= kFewWarps;
    if (plan.shared_cells && fit < kMostWarps) plan.warps = static_cast<int>(fit);
    // Spread a small batch over all multiprocessors.
    const int64_t strips = (args.num_rows + kPanel - 1) / kPanel;
    const int64_t share = (strips + device.processors - 1) / device.processors;
    if (share < plan.warps) plan.warps = static_cast<int>(share < 1 ? 1 : share);
  }
  plan.shared_bytes = bytes + (plan.shared_cells ? block_cells(args, plan) : 0);
  return plan;
}

// Both return a cudaError_t. The plan is for the current device.
int plan_mlp(const MlpArgs& args, Precision precision, MlpPlan* plan);
int launch_mlp(MlpArgs args, Precision precision, const MlpPlan& plan, Stream stream);

}  // namespace missdiff::cuda
