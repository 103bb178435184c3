#include "mlp.cuh"

namespace missdiff::cuda {

MlpKernel mlp_in_bfloat16(int width, int strips) {
  switch (strips == 4 ? padded_panels(width) : 0) {
    case 16:
      return run_wide<InBfloat16, 2, 4>;
    case 24:
      return run_wide<InBfloat16, 3, 4>;
    case 32:
      return run_wide<InBfloat16, 4, 4>;
    default:
      return find_mlp_kernel<InBfloat16>(width);
  }
}

}  // namespace missdiff::cuda
