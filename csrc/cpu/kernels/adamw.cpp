#include "../../cells.h"
#include "kernels.h"

namespace missdiff::cpu {
namespace MISSDIFF_ISA {

size_t adamw_bytes(const AdamwArgs&) { return 0; }

// Items: blocks of weights.
int adamw(const AdamwArgs& args, int64_t begin, int64_t end, char*) {
  const float keep = static_cast<float>(1.0 - args.beta_mean), take = static_cast<float>(args.beta_square);
  const float fresh = static_cast<float>(1.0 - args.beta_square), epsilon = static_cast<float>(args.epsilon);
  const float step = static_cast<float>(args.rate / args.correction_mean);
  const float root = static_cast<float>(__builtin_sqrt(args.correction_square));
  const float share = static_cast<float>(1.0 - args.decay);
  const int64_t first = begin * kUpdateBlock;
  const int64_t last = end * kUpdateBlock < args.num_weights ? end * kUpdateBlock : args.num_weights;
  float* __restrict weights = args.weights;
  float* __restrict mean = args.mean;
  float* __restrict square = args.square;
  float* __restrict average = args.average;
  alignas(64) float grad[kPanel];
  for (int64_t j = first; j < last; j += kPanel) {
    for (int l = 0; l < kPanel; ++l) grad[l] = 0.0f;
    for (int64_t b = 0; b < args.buffers; ++b) {
      const float* __restrict from = args.gradients + b * args.num_weights + j;
      for (int l = 0; l < kPanel; ++l) grad[l] += from[l];
    }
    for (int l = 0; l < kPanel; ++l) {
      const float g = grad[l];
      const float m = mean[j + l] + keep * (g - mean[j + l]);
      const float v = take * square[j + l] + fresh * g * g;
      const float w = weights[j + l] - step * m / (square_root(v) / root + epsilon);
      mean[j + l] = m;
      square[j + l] = v;
      weights[j + l] = w;
      average[j + l] += share * (w - average[j + l]);
    }
  }
  return 0;
}

}  // namespace MISSDIFF_ISA
}  // namespace missdiff::cpu
