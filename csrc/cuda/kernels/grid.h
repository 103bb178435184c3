// Kernels that also run on the host. A kernel is a struct with
//
//   Args                  arguments, passed by value
//   kThreads              threads of a block
//   kPhases               phases, with a barrier of the block between them
//   shared_bytes(args)    shared memory of a block
//   run<i>(args, place, shared)   phase i of one thread
//
// On the device `run_grid` runs it. On the host `run_on_host` runs the threads one after another, phase by phase, so
// that tests without a GPU cover the same indexing and arithmetic.
#pragma once

#include <cstddef>

#include "../../macros.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif

struct CUstream_st;

namespace missdiff::cuda {

constexpr int kThreads = 256;  // of a block, by default

// A thread's position in the grid.
struct Place {
  int64_t block;
  int thread;
};

// Division by a number that is constant for a launch, from 1 to 2^31. Exact for every dividend that is not negative:
// the factor is 2^(31 + shift) / divisor, rounded up, where 2^shift is the least power of 2 that is not below the
// divisor. 0, of a launch without numbers, counts as 1.
struct Divider {
  uint32_t divisor, factor, shift;
  Divider() = default;
  MISSDIFF_MEMBER explicit Divider(int64_t d) : shift(0) {
    if (d < 1) d = 1;
    divisor = static_cast<uint32_t>(d);
    while ((int64_t{1} << shift) < d) ++shift;
    factor = static_cast<uint32_t>(((uint64_t{1} << (31 + shift)) + d - 1) / d);
  }
};

MISSDIFF_INLINE int quotient(int n, const Divider& by) {
  const uint64_t product = static_cast<uint64_t>(static_cast<uint32_t>(n)) * by.factor;
  return static_cast<int>(static_cast<uint32_t>(product >> 31) >> by.shift);
}

// Loads or stores several numbers in one access. The address is aligned as `Several` is.
template <class Several>
MISSDIFF_INLINE Several load_as(const void* from) {
#ifdef __CUDA_ARCH__
  return *static_cast<const Several*>(from);
#else
  Several result;
  __builtin_memcpy(&result, from, sizeof result);
  return result;
#endif
}
template <class Several>
MISSDIFF_INLINE void store_as(void* to, const Several& numbers) {
#ifdef __CUDA_ARCH__
  *static_cast<Several*>(to) = numbers;
#else
  __builtin_memcpy(to, &numbers, sizeof numbers);
#endif
}

// Ends the launch with an error that the next call of the CUDA runtime reports. As in PyTorch, the host does not wait
// for a kernel just to learn that an index is out of range.
MISSDIFF_INLINE void require(bool condition) {
  if (condition) return;
#ifdef __CUDA_ARCH__
  __trap();
#else
  __builtin_trap();
#endif
}

// The CUDA runtime's cudaStream_t, without its header, which only .cu files include.
using Stream = CUstream_st*;

// Launches a kernel on a stream and returns the cudaError_t of the launch; errors of the asynchronous run come later.
// Instantiated in the kernel's .cu file.
template <class Kernel>
int launch_grid(const typename Kernel::Args& args, int64_t blocks, Stream stream);

#define MISSDIFF_LAUNCHER(...) \
  template int launch_grid<__VA_ARGS__>(const __VA_ARGS__::Args& args, int64_t blocks, Stream stream);

#ifdef __CUDACC__

// The most dynamic shared memory a block of a kernel may ask for on the current device: all but the kernel's static
// part.
inline cudaError_t most_dynamic_memory(const void* kernel, int* bytes) {
  int device = 0, most = 0;
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
  if (error == cudaSuccess) *bytes = most - static_cast<int>(attributes.sharedSizeBytes);
  return error;
}

// Allows a kernel that much. The limit is shared by all host threads, so it is always the maximum: a lower one could
// break another thread's launch.
inline cudaError_t allow_shared_memory(const void* kernel) {
  int most = 0;
  const cudaError_t error = most_dynamic_memory(kernel, &most);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
}

template <class Kernel, int phase>
__device__ __forceinline__ void run_phases(const typename Kernel::Args& args, const Place& place, char* shared) {
  Kernel::template run<phase>(args, place, shared);
  if constexpr (phase + 1 < Kernel::kPhases) {
    __syncthreads();
    run_phases<Kernel, phase + 1>(args, place, shared);
  }
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads) run_grid(const __grid_constant__ typename Kernel::Args args) {
  extern __shared__ __align__(16) char shared[];
  run_phases<Kernel, 0>(args, Place{static_cast<int64_t>(blockIdx.x), static_cast<int>(threadIdx.x)}, shared);
}

template <class Kernel>
int launch_grid(const typename Kernel::Args& args, int64_t blocks, Stream stream) {
  if (blocks == 0) return cudaSuccess;
  const int64_t bytes = Kernel::shared_bytes(args);
  if (bytes > 48 * 1024) {  // more needs an opt-in
    const cudaError_t error = allow_shared_memory(reinterpret_cast<const void*>(run_grid<Kernel>));
    if (error != cudaSuccess) return error;
  }
  run_grid<Kernel><<<static_cast<unsigned>(blocks), Kernel::kThreads, static_cast<size_t>(bytes), stream>>>(args);
  return cudaGetLastError();
}

#else

template <class Kernel, int phase>
void run_phases_on_host(const typename Kernel::Args& args, int64_t block, char* shared) {
  // Runs threads in reverse, so that reading a neighbour's result without a barrier fails.
  for (int thread = Kernel::kThreads - 1; thread >= 0; --thread) {
    Kernel::template run<phase>(args, Place{block, thread}, shared);
  }
  if constexpr (phase + 1 < Kernel::kPhases) run_phases_on_host<Kernel, phase + 1>(args, block, shared);
}

// `shared` holds shared_bytes(args) bytes and is filled with `fill` before every block.
template <class Kernel>
void run_on_host(const typename Kernel::Args& args, int64_t blocks, char* shared, int fill) {
  for (int64_t block = 0; block < blocks; ++block) {
    __builtin_memset(shared, fill, static_cast<size_t>(Kernel::shared_bytes(args)));
    run_phases_on_host<Kernel, 0>(args, block, shared);
  }
}

#endif

}  // namespace missdiff::cuda
