#include "perturb.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Perturb<float>)
MISSDIFF_LAUNCHER(Perturb<double>)

}  // namespace missdiff::cuda
