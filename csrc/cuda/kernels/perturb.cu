#include "perturb.h"

namespace missdiff {

MISSDIFF_LAUNCHER(Perturb<float>)
MISSDIFF_LAUNCHER(Perturb<double>)

}  // namespace missdiff
