// What the ops share between tensors and row kernels.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "../checks.h"
#include "dispatch.h"

namespace missdiff {

// Scratch memory of one thread, aligned to 64 bytes.
class ThreadMemory {
 public:
  explicit ThreadMemory(size_t bytes) : memory_(std::aligned_alloc(64, (bytes + 63) / 64 * 64), &std::free) {
    STD_TORCH_CHECK(memory_ != nullptr, "out of memory");
  }
  char* get() const { return static_cast<char*>(memory_.get()); }

 private:
  std::unique_ptr<void, decltype(&std::free)> memory_;
};

// The columns that an offsets tensor describes, and the arrays that `Columns` points into.
class OwnedColumns {
 public:
  OwnedColumns(const Tensor& offsets, int64_t width) {
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
  OwnedColumns(const OwnedColumns&) = delete;
  OwnedColumns& operator=(const OwnedColumns&) = delete;
  const Columns& get() const { return columns_; }

 private:
  std::vector<int64_t> begin_;
  std::vector<int16_t> last_;
  std::vector<Run> runs_;
  Columns columns_;
};

// A result of an op. Memory of many megabytes comes fresh from the system, and to be given it in pages of 4 KiB takes
// longer than to write it; so large pages are asked for where they are to be had.
inline Tensor allocate(const Tensor& like, std::initializer_list<int64_t> shape, ScalarType type) {
  Tensor out = torch::stable::new_empty(like, torch::headeronly::IntHeaderOnlyArrayRef(shape), type);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t kPage = uintptr_t{1} << 21;
  const uintptr_t start = reinterpret_cast<uintptr_t>(out.mutable_data_ptr());
  const uintptr_t bytes =
      static_cast<uintptr_t>(out.numel()) * (type == ScalarType::Double                             ? 8
                                             : type == ScalarType::Float || type == ScalarType::Int ? 4
                                                                                                    : 2);
  const uintptr_t first = (start + kPage - 1) / kPage * kPage, last = (start + bytes) / kPage * kPage;
  if (last >= first + 4 * kPage) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
  return out;
}

inline Type type_of(const Tensor& t) {
  const ScalarType type = t.scalar_type();
  return type == ScalarType::Double ? Type::kDouble : type == ScalarType::Float ? Type::kFloat : Type::kBfloat16;
}

struct Key {
  int64_t seed, step;
};

inline Key read_key(const Tensor& key) {
  check_type(key, "key", {ScalarType::Long});
  check_shape(key, "key", {2});
  const Tensor given = torch::stable::contiguous(key);
  const int64_t* words = given.const_data_ptr<int64_t>();
  return {words[0], words[1]};
}

// Contiguous tensors of a table and a batch, kept alive while the kernels read them.
struct Batch {
  OwnedColumns owned;
  Tensor continuous, codes, rows, states;
  std::optional<Tensor> values;
  BatchArgs args;

  Batch(const Tensor& continuous_, const Tensor& codes_, const Tensor* values_, const Tensor& offsets,
        const Tensor& rows_, const Tensor& states_, int64_t width, Key key)
      : owned(offsets, width) {
    const Columns& columns = owned.get();
    check_type(continuous_, "continuous", {ScalarType::Float, ScalarType::Double});
    check_type(codes_, "codes", {ScalarType::Short});
    check_type(rows_, "rows", {ScalarType::Long});
    check_type(states_, "states", {ScalarType::Byte});
    check_shape(continuous_, "continuous", {-1, columns.continuous});
    const int64_t N = continuous_.size(0);
    check_shape(codes_, "codes", {N, columns.categorical});
    check_shape(rows_, "rows", {-1});
    const int64_t B = rows_.size(0);
    check_shape(states_, "states", {B, columns.continuous + columns.categorical});
    continuous = torch::stable::contiguous(continuous_);
    codes = torch::stable::contiguous(codes_);
    rows = torch::stable::contiguous(rows_);
    states = torch::stable::contiguous(states_);
    check_rows(rows.const_data_ptr<int64_t>(), B, N);
    if (values_ != nullptr) {
      check_type(*values_, "values", {continuous_.scalar_type()});
      check_shape(*values_, "values", {N, columns.continuous});
      values = torch::stable::contiguous(*values_);
    }
    args = {columns,
            type_of(continuous),
            continuous.const_data_ptr(),
            codes.const_data_ptr<int16_t>(),
            values ? values->const_data_ptr() : nullptr,
            rows.const_data_ptr<int64_t>(),
            states.const_data_ptr<uint8_t>(),
            B,
            key.seed,
            key.step};
  }
};

// Runs a kernel over [0, n) on the threads of PyTorch's pool; true if every code was in range. `cells` is the work of
// one item: below about 8,000 cells a second thread costs more than it saves.
template <class Args>
bool launch(int (*kernel)(const Args&, int64_t, int64_t, char*), const Args& args, int64_t n, int64_t cells,
            const Columns& columns) {
  if (n == 0) return true;
  const size_t bytes = scratch_bytes(columns.width, columns.continuous, columns.categorical);
  const int64_t grain = 1 + 8192 / (cells + 1);
  std::atomic<int> bad{0};
  torch::stable::parallel_for(0, n, grain, [&](int64_t begin, int64_t end) {
    ThreadMemory memory(bytes);
    if (kernel(args, begin, end, memory.get()) != 0) bad.store(1, std::memory_order_relaxed);
  });
  return bad.load() == 0;
}

}  // namespace missdiff
