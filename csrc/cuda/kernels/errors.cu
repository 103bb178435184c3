#include <cuda_runtime.h>

extern "C" const char* missdiff_cuda_error(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }
