#include "adamw.h"

namespace missdiff::cuda {

MISSDIFF_LAUNCHER(Adamw)

}  // namespace missdiff::cuda
