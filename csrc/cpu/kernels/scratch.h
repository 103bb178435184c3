// Scratch memory that measures itself.
#pragma once

#include <cstddef>
#include <cstdint>

namespace missdiff::cpu {
namespace {

// Hands out pieces of memory, each aligned to 64 bytes. Over no memory it counts bytes and hands out null pointers, so
// that the code that lays memory out also tells how much it needs.
class Scratch {
 public:
  explicit Scratch(char* memory) : memory_(memory) {}

  template <class T>
  T* take(int64_t n) {
    T* piece = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ += (static_cast<size_t>(n) * sizeof(T) + 127) / 64 * 64;
    return piece;
  }
  size_t used() const { return used_; }

 private:
  char* memory_;
  size_t used_ = 0;
};

// Bytes that `Layout(args, scratch)` takes.
template <class Layout, class Args>
size_t bytes_of(const Args& args) {
  Scratch scratch(nullptr);
  const Layout layout(args, scratch);
  return scratch.used();
}

}  // namespace
}  // namespace missdiff::cpu
