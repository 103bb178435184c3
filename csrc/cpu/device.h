// The CPU as a device of calls/, and how its ops run kernels.
#pragma once

#include <atomic>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "../calls/arguments.h"
#include "dispatch.h"
#include "memory.h"

namespace missdiff::cpu {

// Columns described by an offsets tensor, with the arrays that `Columns` points to.
class ColumnsOf {
 public:
  ColumnsOf(const Tensor& offsets, int64_t width) {
    check_type(offsets, "offsets", {ScalarType::Long});
    STD_TORCH_CHECK(offsets.dim() == 1 && offsets.size(0) >= 1, "offsets must be a vector of K + 1 numbers");
    const Tensor given = torch::stable::contiguous(offsets);
    const int64_t K = given.size(0) - 1;
    const int64_t* first = given.const_data_ptr<int64_t>();
    begin_.assign(first, first + K + 1);
    STD_TORCH_CHECK(begin_[0] >= 0 && begin_[K] == width, "offsets must end with the encoded width, ", width,
                    ", but end with ", begin_[K]);
    for (int64_t k = 0; k < K; ++k) {
      const int64_t size = begin_[k + 1] - begin_[k];
      STD_TORCH_CHECK(size >= 1 && size <= 32767, "offsets give group ", k, " ", size,
                      " categories; 1 to 32767 can be held");
      last_.push_back(static_cast<int16_t>(size - 1));
      if (!runs_.empty() && runs_.back().size == size) {
        ++runs_.back().groups;
      } else {
        runs_.push_back({k, 1, size, begin_[k]});
      }
    }
    columns_ = {begin_[0], K, width, begin_.data(), last_.data(), runs_.data(), static_cast<int64_t>(runs_.size())};
  }
  ColumnsOf(const ColumnsOf&) = delete;
  ColumnsOf& operator=(const ColumnsOf&) = delete;
  const Columns& get() const { return columns_; }

 private:
  std::vector<int64_t> begin_;
  std::vector<int16_t> last_;
  std::vector<Run> runs_;
  Columns columns_;
};

struct Key {
  int64_t seed, step;
};

struct Device {
  using ColumnsOf = cpu::ColumnsOf;
  using Key = cpu::Key;
  static constexpr bool kOnHost = true;
  static constexpr uintptr_t kAlignment = alignof(float);
  static constexpr int64_t kMostColumns = INT64_MAX;

  explicit Device(const Tensor&) {}
  void check(const Tensor&, const char*) const {}  // PyTorch calls these ops for tensors on the CPU alone
  Tensor contiguous(const Tensor& t) const { return torch::stable::contiguous(t); }
  Tensor aligned(const Tensor& t) const { return torch::stable::contiguous(t); }
  ColumnsOf columns(const Tensor& offsets, int64_t, int64_t width) const { return ColumnsOf(offsets, width); }
  Key key(const Tensor& t) const { return {t.const_data_ptr<int64_t>()[0], t.const_data_ptr<int64_t>()[1]}; }

  // Large results lie in memory fresh from the system. Huge pages are requested for them: faulting in pages of 4 KiB
  // takes longer than the writes.
  Tensor empty(const Tensor& like, std::initializer_list<int64_t> shape, ScalarType type) const {
    Tensor out = torch::stable::new_empty(like, torch::headeronly::IntHeaderOnlyArrayRef(shape), type);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr uintptr_t kPage = uintptr_t{1} << 21;
    const uintptr_t start = reinterpret_cast<uintptr_t>(out.mutable_data_ptr());
    const uintptr_t bytes = static_cast<uintptr_t>(out.numel()) * out.element_size();
    const uintptr_t first = (start + kPage - 1) / kPage * kPage, last = (start + bytes) / kPage * kPage;
    if (last >= first + 4 * kPage) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
    return out;
  }
};

inline Type type_of(const Tensor& t) {
  const ScalarType type = t.scalar_type();
  if (type == ScalarType::Long) return Type::kLong;
  return type == ScalarType::Double ? Type::kDouble : type == ScalarType::Float ? Type::kFloat : Type::kBfloat16;
}

inline const void* data_or_null(const std::optional<Tensor>& t) { return t ? t->const_data_ptr() : nullptr; }

inline BatchArgs batch_args(const BatchTensors<Device>& batch, Key key) {
  return {batch.columns.get(),
          type_of(batch.continuous),
          batch.continuous.const_data_ptr(),
          batch.codes.const_data_ptr<int16_t>(),
          data_or_null(batch.values),
          batch.rows.const_data_ptr<int64_t>(),
          batch.states.const_data_ptr<uint8_t>(),
          batch.num_rows(),
          key.seed,
          key.step};
}

// Runs a kernel over the items [0, n) on the threads of PyTorch's pool, at least `grain` items each. True if every code
// was in range.
template <class Args>
bool run(const Kernel<Args>& kernel, const Args& args, int64_t n, int64_t grain) {
  if (n == 0) return true;
  const size_t bytes = kernel.bytes(args);
  std::atomic<bool> good{true};
  torch::stable::parallel_for(0, n, grain, [&](int64_t begin, int64_t end) {
    const ThreadMemory memory(bytes);
    if (kernel.run(args, begin, end, memory.get()) != 0) good.store(false, std::memory_order_relaxed);
  });
  return good.load();
}

// The grain of items of so many cells: below about 8,000 cells a second thread costs more than it saves.
inline int64_t grain_of(int64_t cells) { return 1 + 8192 / (cells + 1); }

}  // namespace missdiff::cpu
