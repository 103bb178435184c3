// Warp-level code that also runs on the host. A PerLane holds one value per lane, and MISSDIFF_LANES loops over lanes:
// on the device one value and one iteration per thread, on the host 32 of both. MISSDIFF_WARPS and MISSDIFF_THREADS
// loop over a block's warps and threads alike.
#pragma once

#include "grid.h"

namespace missdiff::cuda {

constexpr int kLanes = 32;

struct alignas(16) Four {
  float v[4];
};

#ifdef __CUDA_ARCH__

template <class T>
struct PerLane {
  T value;
  MISSDIFF_MEMBER T& operator[](int) { return value; }
  MISSDIFF_MEMBER const T& operator[](int) const { return value; }
};

#define MISSDIFF_LANES(lane) for (int lane = static_cast<int>(threadIdx.x) % kLanes, turn = 1; turn; turn = 0)
#define MISSDIFF_WARPS(warp, count) for (int warp = static_cast<int>(threadIdx.x) / kLanes, call = 1; call; call = 0)
#define MISSDIFF_THREADS(thread) for (int thread = static_cast<int>(threadIdx.x), turn = 1; turn; turn = 0)

#else

template <class T>
struct PerLane {
  T value[kLanes];
  MISSDIFF_MEMBER T& operator[](int lane) { return value[lane]; }
  MISSDIFF_MEMBER const T& operator[](int lane) const { return value[lane]; }
};

#define MISSDIFF_LANES(lane) for (int lane = 0; lane < kLanes; ++lane)
// The last first: what a warp or a thread reads of an earlier one without a barrier is not there yet.
#define MISSDIFF_WARPS(warp, count) for (int warp = (count) - 1; warp >= 0; --warp)
#define MISSDIFF_THREADS(thread) for (int thread = kThreads - 1; thread >= 0; --thread)

#endif

// Makes the warp's writes to memory visible to all its lanes.
MISSDIFF_INLINE void warp_barrier() {
#ifdef __CUDA_ARCH__
  __syncwarp();
#endif
}

// The same for all threads of a block.
MISSDIFF_INLINE void block_barrier() {
#ifdef __CUDA_ARCH__
  __syncthreads();
#endif
}

}  // namespace missdiff::cuda
