// How a pass of the network is spread over a device.
#pragma once

#include "mlp.h"

namespace missdiff {

enum class Precision : int { kBfloat16, kTf32, kFloat32 };

struct MlpPlan {
  int warps;              // of a block
  int blocks;             // of the grid, which go on to further rows until all are done
  int64_t scratch_bytes;  // for `MlpArgs::scratch`; 0 where shared memory has room
};

constexpr int kMostPanels = 32;  // a width of 512

// Panels that a width is rounded up to: what kernels are compiled for.
MISSDIFF_INLINE int padded_panels(int width) {
  const int sizes[] = {2, 4, 6, 8, 16, 24, 32};
  for (int size : sizes) {
    if (panels_of(width) <= size) return size;
  }
  return 0;
}
constexpr int kNarrowPanels = 8;  // up to which a warp works alone

// Whether the current device has the shared memory that a kernel needs beside its cells.
bool fits_mlp(const MlpArgs& args, Precision precision);

// Both give a cudaError_t. The plan is for the current device; the launch fills in the args what it decides.
int plan_mlp(const MlpArgs& args, Precision precision, MlpPlan* plan);
int launch_mlp(MlpArgs args, Precision precision, const MlpPlan& plan, Stream stream);

}  // namespace missdiff
