#include "mlp.cuh"

namespace missdiff::cuda {

MlpKernel mlp_in_float32(int width, int strips) {
  static_cast<void>(strips);
  return find_mlp_kernel<InFloat32>(width);
}

}  // namespace missdiff::cuda
