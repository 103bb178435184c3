#include "codec.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Decode<float>)
MISSDIFF_LAUNCHER(Decode<double>)

}  // namespace missdiff::cuda
