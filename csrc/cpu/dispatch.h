#pragma once

#include "kernels/kernels.h"

namespace missdiff::cpu {

// Kernels of the best instruction set that this processor has, chosen once. The environment variable MISSDIFF_SIMD
// (baseline, avx2 or avx512) can choose a lower one.
const Kernels& kernels();

}  // namespace missdiff::cpu

// The name of the instruction set in use.
const char* missdiff_simd();
