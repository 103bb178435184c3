#include "random.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Random<false, false>)
MISSDIFF_LAUNCHER(Random<false, true>)
MISSDIFF_LAUNCHER(Random<true, false>)
MISSDIFF_LAUNCHER(Random<true, true>)

}  // namespace missdiff::cuda
