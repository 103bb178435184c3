#include "perturb.h"

namespace missdiff {

MISSDIFF_LAUNCHER(Perturb<float, float>)
MISSDIFF_LAUNCHER(Perturb<float, Bfloat16>)
MISSDIFF_LAUNCHER(Perturb<float, Float16>)
MISSDIFF_LAUNCHER(Perturb<double, double>)
MISSDIFF_LAUNCHER(Perturb<double, Bfloat16>)
MISSDIFF_LAUNCHER(Perturb<double, Float16>)

}  // namespace missdiff
