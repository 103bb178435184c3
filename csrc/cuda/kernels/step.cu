#include "step.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Step<float, float>)
MISSDIFF_LAUNCHER(Step<float, Bfloat16>)
MISSDIFF_LAUNCHER(Step<double, double>)
MISSDIFF_LAUNCHER(Step<double, Bfloat16>)

}  // namespace missdiff::cuda
