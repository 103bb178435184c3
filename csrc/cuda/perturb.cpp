#include "launch.h"

namespace missdiff {
namespace {

Tensor perturb(const Tensor& continuous,  // [N, C]
               const Tensor& codes,       // [N, K]
               const Tensor& offsets,     // [K + 1]
               const Tensor& rows,        // [B]
               const Tensor& states,      // [B, J]
               const Tensor& alpha,       // [B]
               const Tensor& sigma,       // [B]
               const Tensor& key,         // [2]
               int64_t width, double low, double high) {
  const Device device(continuous);
  const BatchTensors batch(continuous, codes, nullptr, offsets, rows, states, width);
  const ScalarType own = continuous.scalar_type();
  const int64_t B = rows.size(0);
  const Tensor a = read_vector(continuous, alpha, "alpha", own, B), s = read_vector(continuous, sigma, "sigma", own, B);
  const Tensor words = read_key(continuous, key);
  Tensor out = empty(continuous, {B, width}, own);
  if (width == 0) return out;
  with_table_type(own, [&](auto table) {
    using T = typename decltype(table)::Type;
    const Tile tile = make_tile(width * static_cast<int64_t>(sizeof(T)));
    device.launch<Perturb<T>>({batch.batch<T>(), data<T>(a), data<T>(s), data<int64_t>(words), static_cast<T>(low),
                               static_cast<T>(high), Divider((width + 3) / 4), tile, data<T>(out)},
                              num_tiles(tile, B));
  });
  return out;
}

}  // namespace
}  // namespace missdiff

STABLE_TORCH_LIBRARY_IMPL(missdiff_fast, CUDA, m) { m.impl("perturb", TORCH_BOX(&missdiff::perturb)); }
