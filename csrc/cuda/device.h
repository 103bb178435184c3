// A CUDA device as a device of calls/. No op makes the host wait for the device, so the numbers in tensors are not
// checked here: kernels end the launch where a row or a code is out of range.
#pragma once

#include "../calls/arguments.h"
#include "kernels/perturb.h"

// torch's headers declare it only under USE_CUDA, which changes other headers too.
extern "C" int32_t aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);
extern "C" const char* missdiff_cuda_error(int error);

namespace missdiff::cuda {

template <class T>
const T* data(const Tensor& t) {
  return static_cast<const T*>(t.const_data_ptr());
}
template <class T>
T* mutable_data(const Tensor& t) {
  return static_cast<T*>(t.mutable_data_ptr());
}

// How columns lie in the encoded row, and the offsets that it points to.
class ColumnsOf {
 public:
  ColumnsOf(const Tensor& offsets, int64_t num_columns, int64_t width) : offsets_(offsets) {
    const int64_t K = offsets.size(0) - 1, C = num_columns - K;
    STD_TORCH_CHECK(K >= 0 && C >= 0 && width >= num_columns, "offsets hold ", K, " groups, which ", num_columns,
                    " columns and an encoded width of ", width, " cannot have");
    STD_TORCH_CHECK(width < kMostWidth, "encoded rows of ", width, " columns are wider than a kernel can take");
    columns_ = {static_cast<int>(C), static_cast<int>(K), static_cast<int>(width), data<int64_t>(offsets_)};
  }
  const Columns& get() const { return columns_; }

 private:
  Tensor offsets_;
  Columns columns_;
};

// Makes the first tensor's device the current one. Kernels run on its current stream.
class Device {
 public:
  using ColumnsOf = cuda::ColumnsOf;
  using Key = Tensor;  // stays on the device
  static constexpr bool kOnHost = false;
  static constexpr uintptr_t kAlignment = 16;
  static constexpr int64_t kMostColumns = kMostWidth;

  explicit Device(const Tensor& first) : index_(first.get_device_index()), guard_(index_) {}

  // A pointer to another device's memory would fail late, inside a kernel.
  void check(const Tensor& t, const char* name) const {
    STD_TORCH_CHECK(t.is_cuda() && t.get_device_index() == index_, name,
                    " must be on the same CUDA device as the op's first tensor, ", index_);
  }
  Tensor contiguous(const Tensor& t) const { return torch::stable::contiguous(t); }
  Tensor aligned(const Tensor& t) const {
    const Tensor whole = torch::stable::contiguous(t);
    return reinterpret_cast<uintptr_t>(whole.const_data_ptr()) % 16 == 0 ? whole : torch::stable::clone(whole);
  }
  Tensor empty(const Tensor& like, std::initializer_list<int64_t> shape, ScalarType type) const {
    return torch::stable::new_empty(like, torch::headeronly::IntHeaderOnlyArrayRef(shape), type);
  }
  ColumnsOf columns(const Tensor& offsets, int64_t num_columns, int64_t width) const {
    return ColumnsOf(read_vector(*this, offsets, "offsets", ScalarType::Long, -1), num_columns, width);
  }
  Key key(const Tensor& t) const { return t; }

  int32_t index() const { return index_; }

  Stream stream() const {
    void* stream = nullptr;
    STD_TORCH_CHECK(aoti_torch_get_current_cuda_stream(index_, &stream) == 0, "no current stream on device ", index_);
    return static_cast<Stream>(stream);
  }

  // The cudaError_t of a launch.
  void check_launch(int error) const {
    STD_TORCH_CHECK(error == 0, "a CUDA kernel could not be started on device ", index_, ": ",
                    missdiff_cuda_error(error));
  }

  template <class Kernel>
  void start(const typename Kernel::Args& args, int64_t blocks) const {
    STD_TORCH_CHECK(blocks <= INT32_MAX, "more rows than one launch can take");
    if (blocks > 0) check_launch(launch_grid<Kernel>(args, blocks, stream()));
  }

 private:
  int32_t index_;
  torch::stable::accelerator::DeviceGuard guard_;
};

template <class T>
const T* data_or_null(const std::optional<Tensor>& t) {
  return t ? data<T>(*t) : nullptr;
}

template <class T>
struct Is {
  using Type = T;
};

// Calls `function` with the C++ type of a table's numbers.
template <class Function>
void with_table_type(ScalarType type, Function function) {
  type == ScalarType::Double ? function(Is<double>()) : function(Is<float>());
}

// Calls `function` with the C++ type of a prediction: the table's, T, or bfloat16.
template <class T, class Function>
void with_prediction_type(ScalarType type, Function function) {
  type == ScalarType::BFloat16 ? function(Is<Bfloat16>()) : function(Is<T>());
}

template <class T>
Batch<T> batch_of(const BatchTensors<Device>& batch) {
  return {
      batch.columns.get(),       data<T>(batch.continuous),   data<int16_t>(batch.codes), data_or_null<T>(batch.values),
      data<int64_t>(batch.rows), data<uint8_t>(batch.states), batch.num_rows(),           batch.continuous.size(0)};
}

}  // namespace missdiff::cuda
