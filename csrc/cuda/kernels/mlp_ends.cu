#include "mlp_ends.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(MlpInput)
MISSDIFF_LAUNCHER(MlpLoss<true>)
MISSDIFF_LAUNCHER(MlpLoss<false>)

}  // namespace missdiff::cuda
