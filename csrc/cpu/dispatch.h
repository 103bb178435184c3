#pragma once

#include "kernels/kernels.h"

namespace missdiff::cpu {

// The kernels for this processor, chosen once. The environment variable MISSDIFF_SIMD (baseline, avx2 or avx512) can
// lower the choice, never raise it.
const Kernels& kernels();

}  // namespace missdiff::cpu

// The name of the instruction set in use.
const char* missdiff_simd();
