#include "mlp_ends.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(MlpInput)
MISSDIFF_LAUNCHER(MlpLoss)

}  // namespace missdiff::cuda
