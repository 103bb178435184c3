// AdamW without weight decay, and the moving average of the weights; see missdiff_fast.reference.adamw.
#pragma once

#include <cstddef>

#include "grid.h"

namespace missdiff::cuda {

// By squaring, so that host and device agree without a library's pow.
MISSDIFF_INLINE double whole_power(double base, int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

// What a step's weights have in common, in float as the CPU's kernel has it.
struct AdamwFactors {
  float keep;   // 1 - beta of the mean
  float hold;   // beta of the square
  float fresh;  // 1 - hold
  float step;   // learning rate over the mean's bias correction
  float root;   // of the square's bias correction
  float share;  // of the weights in their average
};

MISSDIFF_INLINE AdamwFactors adamw_factors(const double* schedule) {
  constexpr double kBetaMean = 0.9, kBetaSquare = 0.999;  // PyTorch's
  const int64_t number = static_cast<int64_t>(schedule[1]);
  AdamwFactors factors;
  factors.keep = static_cast<float>(1.0 - kBetaMean);
  factors.hold = static_cast<float>(kBetaSquare);
  factors.fresh = static_cast<float>(1.0 - kBetaSquare);
  factors.step = static_cast<float>(schedule[0] / (1.0 - whole_power(kBetaMean, number)));
  factors.root = square_root(static_cast<float>(1.0 - whole_power(kBetaSquare, number)));
  factors.share = static_cast<float>(1.0 - schedule[2]);
  return factors;
}

MISSDIFF_INLINE void adamw_weight(const AdamwFactors& factors, float gradient, float& weight, float& mean,
                                  float& square, float& average) {
  constexpr float kEpsilon = 1e-8f;
  mean += factors.keep * (gradient - mean);
  square = factors.hold * square + factors.fresh * gradient * gradient;
  weight -= factors.step * mean / (square_root(square) / factors.root + kEpsilon);
  average += factors.share * (weight - average);
}

// One thread updates four weights, in accesses of 16 bytes.
struct Adamw {
  struct Args {
    float *weights, *mean, *square, *average;  // [P] each at an address that is a multiple of 16, as is the gradient's
    const float* gradient;                     // [P]
    const double* schedule;                    // [3] learning rate, number of this step from 1, decay of the average
    int64_t size;                              // P
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 2;

  static int64_t num_blocks(int64_t size) { return (size + 4 * kThreads - 1) / (4 * kThreads); }
  static int64_t shared_bytes(const Args&) { return sizeof(AdamwFactors); }

  struct alignas(16) Quad {
    float cells[4];
  };

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    AdamwFactors* factors = reinterpret_cast<AdamwFactors*>(shared);
    if constexpr (kPhase == 0) {
      // The schedule is read on the device, so that a graph may change it between replays; once a block, as its powers
      // take longer than the weights of a thread.
      if (place.thread == 0) *factors = adamw_factors(args.schedule);
    } else {
      const int64_t first = 4 * (place.block * kThreads + place.thread);
      if (first + 4 <= args.size) {
        const Quad gradient = *reinterpret_cast<const Quad*>(args.gradient + first);
        Quad weight = *reinterpret_cast<Quad*>(args.weights + first);
        Quad mean = *reinterpret_cast<Quad*>(args.mean + first), square = *reinterpret_cast<Quad*>(args.square + first);
        Quad average = *reinterpret_cast<Quad*>(args.average + first);
        MISSDIFF_UNROLL(4)
        for (int j = 0; j < 4; ++j) {
          adamw_weight(*factors, gradient.cells[j], weight.cells[j], mean.cells[j], square.cells[j], average.cells[j]);
        }
        *reinterpret_cast<Quad*>(args.weights + first) = weight;
        *reinterpret_cast<Quad*>(args.mean + first) = mean;
        *reinterpret_cast<Quad*>(args.square + first) = square;
        *reinterpret_cast<Quad*>(args.average + first) = average;
      } else {
        for (int64_t i = first; i < args.size; ++i) {
          adamw_weight(*factors, args.gradient[i], args.weights[i], args.mean[i], args.square[i], args.average[i]);
        }
      }
    }
  }
};

}  // namespace missdiff::cuda
