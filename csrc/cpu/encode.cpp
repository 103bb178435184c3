#include "launch.h"

namespace missdiff {
namespace {

// In the calling thread: the codec encodes several columns at the same time.
Tensor encode(const Tensor& cells,       // [N]
              const Tensor& keys,        // [V]
              const Tensor& ends,        // [V + 1]
              const Tensor& boundaries,  // [V - 1]
              int64_t count,
              const std::optional<Tensor>& share) {  // [N]
  check_type(cells, "cells", {ScalarType::Float, ScalarType::Double, ScalarType::Long});
  check_shape(cells, "cells", {-1});
  check_type(keys, "keys", {cells.scalar_type()});
  check_shape(keys, "keys", {-1});
  const int64_t N = cells.size(0), V = keys.size(0);
  STD_TORCH_CHECK(V >= 1 && V <= INT32_MAX, "there must be from 1 to ", INT32_MAX, " keys, but there are ", V);
  check_type(ends, "ends", {ScalarType::Double});
  check_shape(ends, "ends", {V + 1});
  check_type(boundaries, "boundaries", {ScalarType::Float});
  check_shape(boundaries, "boundaries", {V - 1});
  STD_TORCH_CHECK(count >= 1, "count must be at least 1, but is ", count);
  const Tensor cells_ = torch::stable::contiguous(cells), keys_ = torch::stable::contiguous(keys);
  const Tensor ends_ = torch::stable::contiguous(ends), boundaries_ = torch::stable::contiguous(boundaries);
  std::optional<Tensor> share_;
  if (share) {
    check_type(*share, "share", {ScalarType::Double});
    check_shape(*share, "share", {N});
    share_ = torch::stable::contiguous(*share);
  }
  const double least = 0.5 / static_cast<double>(count);
  EncodeArgs args{cells.scalar_type() == ScalarType::Long ? Type::kLong : type_of(cells),
                  nullptr,
                  keys_.const_data_ptr(),
                  V,
                  ends_.const_data_ptr<double>(),
                  boundaries_.const_data_ptr<float>(),
                  least,
                  1.0 - least,
                  share_ ? share_->const_data_ptr<double>() : nullptr,
                  nullptr,
                  nullptr};
  const auto run = [&](const Tensor& from, const Tensor& to) {
    args.cells = from.const_data_ptr();
    args.scores = to.mutable_data_ptr<float>();
    kernels().encode(args, 0, from.size(0), nullptr);
  };
  const Tensor scores = allocate(cells, {N}, ScalarType::Float);
  // Without a share, equal cells have equal scores: where there are many cells, each key's is computed but once.
  std::optional<Tensor> middles;
  if (!share && N > V) {
    middles = allocate(cells, {V}, ScalarType::Float);
    run(keys_, *middles);
    args.middles = middles->const_data_ptr<float>();
  }
  run(cells_, scores);
  return scores;
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) { m.impl("encode", TORCH_BOX(&missdiff::encode)); }
