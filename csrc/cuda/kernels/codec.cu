#include "codec.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Encode<float>)
MISSDIFF_LAUNCHER(Encode<double>)
MISSDIFF_LAUNCHER(Encode<int64_t>)
MISSDIFF_LAUNCHER(Decode<float, false>)
MISSDIFF_LAUNCHER(Decode<float, true>)
MISSDIFF_LAUNCHER(Decode<double, false>)
MISSDIFF_LAUNCHER(Decode<double, true>)

}  // namespace missdiff::cuda
