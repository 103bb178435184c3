#include "mlp.cuh"

namespace missdiff {

MlpKernel mlp_in_tf32(int width) { return find_mlp_kernel<InTf32>(width); }

}  // namespace missdiff
