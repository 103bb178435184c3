// AdamW without weight decay, and the moving average of the weights; see missdiff_fast.ops.reference.adamw.
#pragma once

#include "../../cells.h"
#include "grid.h"

namespace missdiff::cuda {

// Power by squaring: unlike pow, it gives the same bits on host and device.
MISSDIFF_INLINE double whole_power(double base, int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

MISSDIFF_INLINE AdamwFactors scheduled_factors(const double* schedule) {
  const int64_t number = static_cast<int64_t>(schedule[1]);
  const float root = square_root(static_cast<float>(1.0 - whole_power(kBeta2, number)));
  return adamw_factors(schedule[0], 1.0 - whole_power(kBeta1, number), root, schedule[2]);
}

// Each thread updates four weights, with 16-byte accesses.
struct Adamw {
  struct Args {
    // [P] each, aligned to 16 bytes
    float *weights, *exp_avg, *exp_avg_sq, *ema;
    const float* gradient;
    const double* schedule;  // [3] learning rate, number of this step from 1, decay of ema
    int64_t size;            // P
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
      // The schedule is read on the device, so that it can change between replays of a graph. Once per block, since the
      // powers take longer than a thread's weights.
      if (place.thread == 0) *factors = scheduled_factors(args.schedule);
    } else {
      const int64_t first = 4 * (place.block * kThreads + place.thread);
      if (first + 4 <= args.size) {
        const Quad gradient = *reinterpret_cast<const Quad*>(args.gradient + first);
        Quad weight = *reinterpret_cast<Quad*>(args.weights + first);
        Quad exp_avg = *reinterpret_cast<Quad*>(args.exp_avg + first);
        Quad exp_avg_sq = *reinterpret_cast<Quad*>(args.exp_avg_sq + first);
        Quad ema = *reinterpret_cast<Quad*>(args.ema + first);
        MISSDIFF_UNROLL(4)
        for (int j = 0; j < 4; ++j) {
          adamw_weight(*factors, gradient.cells[j], weight.cells[j], exp_avg.cells[j], exp_avg_sq.cells[j],
                       ema.cells[j]);
        }
        *reinterpret_cast<Quad*>(args.weights + first) = weight;
        *reinterpret_cast<Quad*>(args.exp_avg + first) = exp_avg;
        *reinterpret_cast<Quad*>(args.exp_avg_sq + first) = exp_avg_sq;
        *reinterpret_cast<Quad*>(args.ema + first) = ema;
      } else {
        for (int64_t i = first; i < args.size; ++i) {
          adamw_weight(*factors, args.gradient[i], args.weights[i], args.exp_avg[i], args.exp_avg_sq[i], args.ema[i]);
        }
      }
    }
  }
};

}  // namespace missdiff::cuda
