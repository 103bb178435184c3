#include "loss.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Count<float, false>)
MISSDIFF_LAUNCHER(Count<float, true>)
MISSDIFF_LAUNCHER(Count<double, false>)
MISSDIFF_LAUNCHER(Count<double, true>)
MISSDIFF_LAUNCHER(Loss<float, float>)
MISSDIFF_LAUNCHER(Loss<float, Bfloat16>)
MISSDIFF_LAUNCHER(Loss<double, double>)
MISSDIFF_LAUNCHER(NoiseLoss<float, float>)
MISSDIFF_LAUNCHER(NoiseLoss<float, Bfloat16>)
MISSDIFF_LAUNCHER(NoiseLoss<double, double>)
MISSDIFF_LAUNCHER(Total<float>)
MISSDIFF_LAUNCHER(Total<double>)

}  // namespace missdiff::cuda
