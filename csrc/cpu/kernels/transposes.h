// Memory of the transposed weights of a training step.
#pragma once

#include "kernels.h"
#include "scratch.h"

namespace missdiff::cpu {
namespace {

// Transposed weights for the backward pass: of the output layer, of the level's second layer, of both layers of each
// block.
struct Transposes {
  float *outputs, *out, *blocks;
  int64_t of_up, of_block;

  Transposes(const MlpTrainArgs& args, Scratch& scratch) {
    const Columns& columns = args.perturb.batch.columns;
    const int64_t W = args.width;
    of_up = panel_floats(2 * W, W);
    of_block = of_up + panel_floats(W, 2 * W);
    outputs = scratch.take<float>(panel_floats(columns.width + columns.continuous, W));
    out = scratch.take<float>(panel_floats(W, W));
    blocks = scratch.take<float>(args.blocks * of_block);
  }
  float* up(int64_t b) const { return blocks + b * of_block; }
  float* down(int64_t b) const { return up(b) + of_up; }
};

inline Transposes transposes_of(const MlpTrainArgs& args) {
  Scratch scratch(args.transposed);
  return Transposes(args, scratch);
}

}  // namespace
}  // namespace missdiff::cpu
