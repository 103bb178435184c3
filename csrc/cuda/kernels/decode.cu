#include "decode.h"

namespace missdiff {

MISSDIFF_LAUNCHER(Decode<float>)
MISSDIFF_LAUNCHER(Decode<double>)

}  // namespace missdiff
