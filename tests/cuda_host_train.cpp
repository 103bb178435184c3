// Runs the bodies of the CUDA kernels of a training step on the host, for tests/test_cuda_host_train.py: every function
// makes a kernel's arguments as the op's glue does, and returns 0, or 1 if the kernel wrote past its shared memory.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../csrc/cuda/kernels/mlp_ends.h"

using namespace missdiff;
using namespace missdiff::cuda;

namespace {

struct Matrix {
  float* first;
  int64_t stride;

  Rows<float> rows() const { return {first, stride}; }
  Rows<const float> read() const { return {first, stride}; }
};

struct BatchPointers {
  int64_t num_continuous, num_categorical, width;
  const int64_t* offsets;
  const float* continuous;
  const int16_t* codes;
  const float* values;
  const int64_t* rows;
  const uint8_t* states;
  int64_t num_rows, stored;

  Batch<float> batch() const {
    const Columns columns{static_cast<int>(num_continuous), static_cast<int>(num_categorical), static_cast<int>(width),
                          offsets};
    return {columns, continuous, codes, values, rows, states, num_rows, stored};
  }
};

template <class Kernel>
int run_kernel(const typename Kernel::Args& args, int64_t blocks) {
  constexpr size_t kGuard = 256;
  const size_t bytes = (static_cast<size_t>(Kernel::shared_bytes(args)) + 15) / 16 * 16;
  const std::unique_ptr<char, decltype(&std::free)> memory(static_cast<char*>(std::aligned_alloc(16, bytes + kGuard)),
                                                           &std::free);
  char* guard = memory.get() + Kernel::shared_bytes(args);
  std::memset(guard, 0x5A, kGuard);
  run_on_host<Kernel>(args, blocks, memory.get(), 0xFF);
  for (size_t i = 0; i < kGuard; ++i) {
    if (guard[i] != 0x5A) return 1;
  }
  return 0;
}

}  // namespace

extern "C" {

int host_norm_forward(const Matrix* h, const float* bias, const float* gain, const float* shift, const Matrix* level,
                      const float* level_bias, const Matrix* out, float* stats, const Matrix* next, int64_t num_rows,
                      int64_t width) {
  return run_kernel<NormForward>({h->read(), bias, gain, shift, level->read(), level_bias, out->rows(), next->rows(),
                                  stats, num_rows, static_cast<int>(width)},
                                 NormForward::num_blocks(num_rows));
}

int host_norm_backward(const Matrix* h, const float* bias, const float* gain, const float* stats, const Matrix* grad,
                       const Matrix* residual, const Matrix* out, const Matrix* level, int64_t add, int64_t num_rows,
                       int64_t width) {
  return run_kernel<NormBackward>({h->rows(), bias, gain, stats, grad->read(), residual->read(), out->rows(),
                                   level->rows(), add != 0, num_rows, static_cast<int>(width)},
                                  NormBackward::num_blocks(num_rows));
}

int host_silu_forward(const Matrix* x, const float* bias, const Matrix* out, int64_t num_rows, int64_t width) {
  return run_kernel<SiluForward>({x->read(), bias, out->rows(), num_rows, Divider(width)},
                                 SiluForward::num_blocks(num_rows));
}

int host_silu_backward(const Matrix* x, const float* bias, const Matrix* grad, int64_t num_rows, int64_t width) {
  return run_kernel<SiluBackward>({x->rows(), bias, grad->read(), num_rows, Divider(width)},
                                  SiluBackward::num_blocks(num_rows));
}

int host_column_sums(const Matrix* x, const int64_t* places, float* out, int64_t num_rows, int64_t columns,
                     int64_t size) {
  return run_kernel<ColumnSums>({x->read(), places, out, num_rows, columns, size}, ColumnSums::num_blocks(columns));
}

int host_store_next(float* out, int64_t* place, const float* value, int64_t size) {
  return run_kernel<StoreNext>({out, place, value, size}, 1);
}

int host_mlp_input(const BatchPointers* batch, const float* sigma, const int64_t* key, float* out) {
  return run_kernel<MlpInput>({batch->batch(), sigma, key, out}, MlpInput::num_blocks(batch->num_rows));
}

int host_mlp_loss(const BatchPointers* batch, const Matrix* output, const float* bias, const float* input,
                  const uint8_t* states, const float* sigma, const float* weight, const int64_t* count,
                  double mean_weight, const float* column_weight, float* loss) {
  const Batch<float> drawn = batch->batch();
  const Tile tile = MlpLoss<true>::tile_of(drawn.columns);
  const int64_t tiles = num_tiles(tile, drawn.num_rows);
  std::vector<double> partials(static_cast<size_t>(tiles));
  const MlpLoss<true>::Plain::Args plain(drawn, nullptr, weight, column_weight, static_cast<float>(mean_weight), count,
                                         tile, nullptr, partials.data());
  const int bad = with_staged(tile, [&](auto staged) {
    return run_kernel<MlpLoss<staged>>({plain, states, sigma, bias, input, output->rows()}, tiles);
  });
  return bad | run_kernel<Total<float>>({partials.data(), tiles, count, loss}, 1);
}
}
