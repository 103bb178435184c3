#include "mlp.cuh"

namespace missdiff::cuda {

MlpKernel mlp_in_float32(int width) { return find_mlp_kernel<InSplitFloat32, InFloat32>(width); }

}  // namespace missdiff::cuda
