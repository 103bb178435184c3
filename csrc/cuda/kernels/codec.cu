#include "codec.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Decode<float, false>)
MISSDIFF_LAUNCHER(Decode<float, true>)
MISSDIFF_LAUNCHER(Decode<double, false>)
MISSDIFF_LAUNCHER(Decode<double, true>)

}  // namespace missdiff::cuda
