#include "step.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Step<float, float, false>)
MISSDIFF_LAUNCHER(Step<float, float, true>)
MISSDIFF_LAUNCHER(Step<float, Bfloat16, false>)
MISSDIFF_LAUNCHER(Step<float, Bfloat16, true>)
MISSDIFF_LAUNCHER(Step<double, double, false>)
MISSDIFF_LAUNCHER(Step<double, double, true>)
MISSDIFF_LAUNCHER(Step<double, Bfloat16, false>)
MISSDIFF_LAUNCHER(Step<double, Bfloat16, true>)

}  // namespace missdiff::cuda
