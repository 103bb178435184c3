#include "layers.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(NormForward)
MISSDIFF_LAUNCHER(NormBackward)
MISSDIFF_LAUNCHER(SiluForward)
MISSDIFF_LAUNCHER(SiluBackward)
MISSDIFF_LAUNCHER(ColumnSums)
MISSDIFF_LAUNCHER(StoreNext)

}  // namespace missdiff::cuda
