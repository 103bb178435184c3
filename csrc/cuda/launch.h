// What the ops share between tensors on a CUDA device and kernels. No op makes the host wait for the device, so what is
// in tensors is not looked at here: kernels end the launch where a row or a code is out of range.
#pragma once

#include <optional>

#include "../checks.h"
#include "kernels/perturb.h"

// torch's headers declare it where USE_CUDA is defined, which other headers of theirs take for more.
extern "C" int32_t aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);
extern "C" const char* missdiff_cuda_error(int error);

namespace missdiff {

// Makes the tensors' device the current one, whose current stream the kernels are put on.
class Device {
 public:
  explicit Device(const Tensor& tensor) : index_(tensor.get_device_index()), guard_(index_) {}

  Stream stream() const {
    void* stream = nullptr;
    STD_TORCH_CHECK(aoti_torch_get_current_cuda_stream(index_, &stream) == 0, "no current stream on device ", index_);
    return static_cast<Stream>(stream);
  }

  // The cudaError_t of a launch.
  void check(int error) const {
    STD_TORCH_CHECK(error == 0, "a CUDA kernel could not be started on device ", index_, ": ",
                    missdiff_cuda_error(error));
  }

  template <class Kernel>
  void launch(const typename Kernel::Args& args, int64_t blocks) const {
    STD_TORCH_CHECK(blocks <= INT32_MAX, "more rows than one launch can take");
    if (blocks > 0) check(launch_grid<Kernel>(args, blocks, stream()));
  }

 private:
  int32_t index_;
  torch::stable::accelerator::DeviceGuard guard_;
};

// All tensors of an op have to be on one device: a kernel that is given a pointer to another's memory would fail late.
inline void check_device(const Tensor& first, const Tensor& t, const char* name) {
  STD_TORCH_CHECK(t.is_cuda() && t.get_device_index() == first.get_device_index(), name,
                  " must be on the same CUDA device as the op's first tensor, ", first.get_device_index());
}

// The tensor's numbers one after another, from an address that accesses of 16 bytes can begin at.
inline Tensor packed(const Tensor& t) {
  const Tensor whole = torch::stable::contiguous(t);
  const bool aligned = reinterpret_cast<uintptr_t>(whole.const_data_ptr()) % 16 == 0;
  return aligned ? whole : torch::stable::clone(whole);
}

template <class T>
const T* data(const Tensor& t) {
  return static_cast<const T*>(t.const_data_ptr());
}
template <class T>
T* data(Tensor& t) {
  return static_cast<T*>(t.mutable_data_ptr());
}

inline Tensor empty(const Tensor& like, std::initializer_list<int64_t> shape, ScalarType type) {
  return torch::stable::new_empty(like, torch::headeronly::IntHeaderOnlyArrayRef(shape), type);
}

// Calls `function` with a value of the C++ type of a tensor's, one of those allowed.
template <class T>
struct Is {
  using Type = T;
};

template <class Function>
auto with_table_type(ScalarType type, Function function) {
  return type == ScalarType::Double ? function(Is<double>()) : function(Is<float>());
}

// The same for predictions, which may be bfloat16.
template <class T, class Function>
auto with_cell_type(ScalarType type, Function function) {
  return type == ScalarType::BFloat16 ? function(Is<Bfloat16>()) : function(Is<T>());
}

inline void check_cell_type(const Tensor& t, const char* name, ScalarType wide) {
  check_type(t, name, {wide, ScalarType::BFloat16});
}

inline Columns read_columns(const Tensor& offsets, int64_t num_columns, int64_t width) {
  check_type(offsets, "offsets", {ScalarType::Long});
  check_shape(offsets, "offsets", {-1});
  const int64_t K = offsets.size(0) - 1, C = num_columns - K;
  STD_TORCH_CHECK(K >= 0 && C >= 0 && width >= num_columns, "offsets hold ", K, " groups, which ", num_columns,
                  " columns and an encoded width of ", width, " cannot have");
  STD_TORCH_CHECK(width < kMostWidth, "encoded rows of ", width, " columns are wider than a kernel can take");
  return {static_cast<int>(C), static_cast<int>(K), static_cast<int>(width), data<int64_t>(offsets)};
}

// Contiguous tensors of a table and a batch, kept alive until the kernels are started.
struct BatchTensors {
  Tensor continuous, codes, offsets, rows, states;
  std::optional<Tensor> values;
  Columns columns;

  BatchTensors(const Tensor& continuous_, const Tensor& codes_, const Tensor* values_, const Tensor& offsets_,
               const Tensor& rows_, const Tensor& states_, int64_t width) {
    check_type(continuous_, "continuous", {ScalarType::Float, ScalarType::Double});
    check_type(codes_, "codes", {ScalarType::Short});
    check_type(rows_, "rows", {ScalarType::Long});
    check_type(states_, "states", {ScalarType::Byte});
    check_shape(states_, "states", {-1, -1});
    offsets = torch::stable::contiguous(offsets_);
    columns = read_columns(offsets, states_.size(1), width);
    check_shape(continuous_, "continuous", {-1, columns.continuous});
    check_shape(codes_, "codes", {continuous_.size(0), columns.categorical});
    check_shape(rows_, "rows", {states_.size(0)});
    if (values_ != nullptr) {
      check_type(*values_, "values", {continuous_.scalar_type()});
      check_shape(*values_, "values", {continuous_.size(0), columns.continuous});
      check_device(continuous_, *values_, "values");
      values = torch::stable::contiguous(*values_);
    }
    check_device(continuous_, codes_, "codes");
    check_device(continuous_, offsets_, "offsets");
    check_device(continuous_, rows_, "rows");
    check_device(continuous_, states_, "states");
    continuous = torch::stable::contiguous(continuous_);
    codes = torch::stable::contiguous(codes_);
    rows = torch::stable::contiguous(rows_);
    states = packed(states_);
  }

  template <class T>
  Batch<T> batch() const {
    return {columns,
            data<T>(continuous),
            data<int16_t>(codes),
            values ? data<T>(*values) : nullptr,
            data<int64_t>(rows),
            data<uint8_t>(states),
            rows.size(0),
            continuous.size(0)};
  }
};

// The key stays on the device.
inline Tensor read_key(const Tensor& first, const Tensor& key) {
  check_type(key, "key", {ScalarType::Long});
  check_shape(key, "key", {2});
  check_device(first, key, "key");
  return torch::stable::contiguous(key);
}

// A vector of numbers of the table's type, or of another.
inline Tensor read_vector(const Tensor& first, const Tensor& t, const char* name, ScalarType type, int64_t size) {
  check_type(t, name, {type});
  check_shape(t, name, {size});
  check_device(first, t, name);
  return torch::stable::contiguous(t);
}

}  // namespace missdiff
