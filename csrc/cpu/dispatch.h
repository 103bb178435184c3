#pragma once

#include "kernels/kernels.h"

namespace missdiff {

// The kernels for this processor, chosen once. The environment variable MISSDIFF_SIMD (baseline, avx2 or avx512) can
// lower the choice, never raise it.
const Kernels& kernels();

}  // namespace missdiff

// The name of the instruction set in use.
const char* missdiff_simd();
