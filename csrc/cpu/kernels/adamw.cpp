#include "../../cells.h"
#include "kernels.h"

namespace missdiff::cpu {
namespace MISSDIFF_ISA {

size_t adamw_bytes(const AdamwArgs&) { return 0; }

// Items: blocks of weights.
int adamw(const AdamwArgs& args, int64_t begin, int64_t end, char*) {
  const int64_t first = begin * kUpdateBlock;
  const int64_t last = end * kUpdateBlock < args.num_weights ? end * kUpdateBlock : args.num_weights;
  const AdamwFactors factors = args.factors;
  float* __restrict weights = args.weights;
  float* __restrict exp_avg = args.exp_avg;
  float* __restrict exp_avg_sq = args.exp_avg_sq;
  float* __restrict ema = args.ema;
  alignas(64) float grad[kPanel];
  for (int64_t j = first; j < last; j += kPanel) {
    for (int l = 0; l < kPanel; ++l) grad[l] = 0.0f;
    for (int64_t b = 0; b < args.buffers; ++b) {
      const float* __restrict from = args.gradients + b * args.num_weights + j;
      for (int l = 0; l < kPanel; ++l) grad[l] += from[l];
    }
    for (int l = 0; l < kPanel; ++l) {
      adamw_weight(factors, grad[l], weights[j + l], exp_avg[j + l], exp_avg_sq[j + l], ema[j + l]);
    }
  }
  return 0;
}

}  // namespace MISSDIFF_ISA
}  // namespace missdiff::cpu
