#include "random.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Random<false>)
MISSDIFF_LAUNCHER(Random<true>)

}  // namespace missdiff::cuda
