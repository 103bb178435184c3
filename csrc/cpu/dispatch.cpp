#include "dispatch.h"

#include <cstdlib>
#include <cstring>

namespace missdiff::cpu {
namespace {

#define MISSDIFF_NAME(name, Args) \
  , { &MISSDIFF_TABLE::name, &MISSDIFF_TABLE::name##_bytes }

#define MISSDIFF_TABLE baseline
const Kernels kBaseline = {"baseline" MISSDIFF_KERNELS(MISSDIFF_NAME)};
#undef MISSDIFF_TABLE

#if defined(__x86_64__)
#define MISSDIFF_TABLE avx2
const Kernels kAvx2 = {"avx2" MISSDIFF_KERNELS(MISSDIFF_NAME)};
#undef MISSDIFF_TABLE
#define MISSDIFF_TABLE avx512
const Kernels kAvx512 = {"avx512" MISSDIFF_KERNELS(MISSDIFF_NAME)};
#undef MISSDIFF_TABLE
#endif

const Kernels& choose() {
#if defined(__x86_64__)
  const char* wanted = std::getenv("MISSDIFF_SIMD");
  if (wanted != nullptr && std::strcmp(wanted, "baseline") == 0) return kBaseline;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx512 && !(wanted != nullptr && std::strcmp(wanted, "avx2") == 0)) return kAvx512;
  if (avx2) return kAvx2;
#endif
  return kBaseline;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace missdiff::cpu

const char* missdiff_simd() { return missdiff::cpu::kernels().name; }
