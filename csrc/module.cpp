// The extension module `_C`. Importing it registers the ops; build_info() describes the build.
#include <pybind11/pybind11.h>

#include <string>

const char* missdiff_simd();

namespace {

std::string cxx_standard() { return "C++" + std::to_string(__cplusplus / 100 % 100); }

pybind11::dict build_info() {
  pybind11::dict info;
  info["version"] = MISSDIFF_VERSION;
  info["torch"] = MISSDIFF_TORCH;
  info["compiler"] = MISSDIFF_COMPILER;
  info["cxx_standard"] = cxx_standard();
  info["simd"] = missdiff_simd();
  return info;
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.doc() = "Native ops of missdiff_fast; importing it registers torch.ops.missdiff_fast.";
  module.def("build_info", &build_info, "Versions, compiler and instruction set in use, as a dict of strings.");
}
