#include "perturb.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Perturb<float, false>)
MISSDIFF_LAUNCHER(Perturb<float, true>)
MISSDIFF_LAUNCHER(Perturb<double, false>)
MISSDIFF_LAUNCHER(Perturb<double, true>)

}  // namespace missdiff::cuda
