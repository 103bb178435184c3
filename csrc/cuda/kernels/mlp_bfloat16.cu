#include "mlp.cuh"

namespace missdiff::cuda {

MlpKernel mlp_in_bfloat16(int width) { return find_mlp_kernel<InBfloat16>(width); }

}  // namespace missdiff::cuda
