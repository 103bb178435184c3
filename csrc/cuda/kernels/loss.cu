#include "loss.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Count<float, false>)
MISSDIFF_LAUNCHER(Count<float, true>)
MISSDIFF_LAUNCHER(Count<double, false>)
MISSDIFF_LAUNCHER(Count<double, true>)
MISSDIFF_LAUNCHER(Loss<float, float, false>)
MISSDIFF_LAUNCHER(Loss<float, float, true>)
MISSDIFF_LAUNCHER(Loss<float, Bfloat16, false>)
MISSDIFF_LAUNCHER(Loss<float, Bfloat16, true>)
MISSDIFF_LAUNCHER(Loss<double, double, false>)
MISSDIFF_LAUNCHER(Loss<double, double, true>)
MISSDIFF_LAUNCHER(NoiseLoss<float, float, false>)
MISSDIFF_LAUNCHER(NoiseLoss<float, float, true>)
MISSDIFF_LAUNCHER(NoiseLoss<float, Bfloat16, false>)
MISSDIFF_LAUNCHER(NoiseLoss<float, Bfloat16, true>)
MISSDIFF_LAUNCHER(NoiseLoss<double, double, false>)
MISSDIFF_LAUNCHER(NoiseLoss<double, double, true>)
MISSDIFF_LAUNCHER(Total<float>)
MISSDIFF_LAUNCHER(Total<double>)

}  // namespace missdiff::cuda
