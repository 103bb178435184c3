#include "launch.h"

namespace missdiff {
namespace {

Tensor random(const Tensor& rows, int64_t columns, const Tensor& key, bool normal) {
  check_type(rows, "rows", {ScalarType::Long});
  check_shape(rows, "rows", {-1});
  STD_TORCH_CHECK(columns >= 0, "columns must not be negative, but is ", columns);
  const Key words = read_key(key);
  const Tensor given = torch::stable::contiguous(rows);
  const int64_t B = rows.size(0);
  Tensor out = allocate(rows, {B, columns}, ScalarType::Float);
  const NoiseArgs args{given.const_data_ptr<int64_t>(), columns, words.seed, words.step, normal,
                       out.mutable_data_ptr<float>()};
  launch(kernels().noise, args, columns == 0 ? 0 : B, columns, {0, 0, columns, nullptr, nullptr, nullptr, 0});
  return out;
}

Tensor uniform(const Tensor& rows, int64_t columns, const Tensor& key) { return random(rows, columns, key, false); }

Tensor normal(const Tensor& rows, int64_t columns, const Tensor& key) { return random(rows, columns, key, true); }

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CPU, m) {
  m.impl("uniform", TORCH_BOX(&missdiff::uniform));
  m.impl("normal", TORCH_BOX(&missdiff::normal));
}
