#include "noise.h"

namespace missdiff {

MISSDIFF_LAUNCHER(Noise<false>)
MISSDIFF_LAUNCHER(Noise<true>)

}  // namespace missdiff
