#include "launch.h"

namespace missdiff {
namespace {

template <bool kNormal>
Tensor random(const Tensor& rows, int64_t columns, const Tensor& key) {
  const Device device(rows);
  check_type(rows, "rows", {ScalarType::Long});
  check_shape(rows, "rows", {-1});
  STD_TORCH_CHECK(0 <= columns && columns < 1 << 24, "columns must be in [0, ", 1 << 24, "), but is ", columns);
  const Tensor given = torch::stable::contiguous(rows), words = read_key(rows, key);
  const int64_t B = rows.size(0);
  Tensor out = empty(rows, {B, columns}, ScalarType::Float);
  if (columns == 0) return out;
  const Tile tile = make_tile(columns * static_cast<int64_t>(sizeof(float)));
  device.launch<Noise<kNormal>>({data<int64_t>(given), data<int64_t>(words), B, static_cast<int>(columns),
                                 Divider((columns + 3) / 4), tile, data<float>(out)},
                                num_tiles(tile, B));
  return out;
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) {
  m.impl("uniform", TORCH_BOX(&missdiff::random<false>));
  m.impl("normal", TORCH_BOX(&missdiff::random<true>));
}
