// The extension module `_cuda`. Importing it registers CUDA kernels for the ops of `_C`, which must be loaded first;
// build_info() describes the build.
#include <pybind11/pybind11.h>

namespace {

pybind11::dict build_info() {
  pybind11::dict info;
  info["cuda"] = MISSDIFF_CUDA;
  info["architectures"] = MISSDIFF_CUDA_ARCHITECTURES;
  info["torch"] = MISSDIFF_TORCH;
  return info;
}

}  // namespace

PYBIND11_MODULE(_cuda, module) {
  module.doc() = "CUDA kernels of missdiff_fast; importing it registers them for torch.ops.missdiff_fast.";
  module.def("build_info", &build_info, "CUDA's version, the architectures and torch, as a dict of strings.");
}
