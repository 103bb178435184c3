#include "adamw.h"

namespace missdiff {

MISSDIFF_LAUNCHER(Adamw)

}  // namespace missdiff
