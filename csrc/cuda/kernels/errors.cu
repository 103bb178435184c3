#include <cuda_runtime.h>

// The runtime keeps the last error until it is read: cleared here, the next launch does not report it again.
extern "C" const char* missdiff_cuda_error(int error) {
  (void)cudaGetLastError();
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
