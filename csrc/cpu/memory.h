// Memory of the CPU's ops, aligned to 64 bytes.
#pragma once

#include <cstdlib>
#include <memory>

#include "../checks.h"

namespace missdiff::cpu {

// Scratch memory of one thread.
class ThreadMemory {
 public:
  explicit ThreadMemory(size_t bytes) : memory_(std::aligned_alloc(64, (bytes + 64) / 64 * 64), &std::free) {
    STD_TORCH_CHECK(memory_ != nullptr, "out of memory");
  }
  char* get() const { return static_cast<char*>(memory_.get()); }

 private:
  std::unique_ptr<void, decltype(&std::free)> memory_;
};

// Memory that a thread keeps from one training step to the next, up to 64 MiB: faulting in fresh pages takes a fifth as
// long as the step.
class KeptMemory {
 public:
  // The memory during one step.
  class Loan {
   public:
    Loan(KeptMemory& kept, size_t bytes) : kept_(kept) {
      if (bytes <= kept.bytes_) return;
      kept.release();  // first, so that both are never held
      kept.memory_ = std::make_unique<ThreadMemory>(bytes);
      kept.bytes_ = bytes;
    }
    ~Loan() {
      if (kept_.bytes_ > kMostKept) kept_.release();
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    char* get() const { return kept_.memory_->get(); }

   private:
    KeptMemory& kept_;
  };

 private:
  static constexpr size_t kMostKept = size_t{1} << 26;
  void release() {
    bytes_ = 0;
    memory_.reset();
  }

  std::unique_ptr<ThreadMemory> memory_;
  size_t bytes_ = 0;
};

}  // namespace missdiff::cpu
