// Runs the network's CUDA kernels on the host, for tests/test_cuda_host_mlp.py: warp after warp, lane after lane.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "../csrc/cuda/kernels/mlp_launch.h"

using namespace missdiff;
using namespace missdiff::cuda;

namespace {

constexpr int kNaN = 0xFF;  // fills memory before use: NaN in every type

class Memory {
 public:
  explicit Memory(size_t bytes)
      : bytes_((bytes + 63) / 64 * 64), memory_(static_cast<char*>(std::aligned_alloc(64, bytes_)), &std::free) {
    spoil();
  }
  void spoil() { std::memset(get(), kNaN, bytes_); }
  char* get() { return memory_.get(); }

 private:
  size_t bytes_;
  std::unique_ptr<char, decltype(&std::free)> memory_;
};

template <class Product, int kPanels>
void run_narrow(const MlpArgs& args) {
  Memory ring(kStages * kChunkBytes), cells(static_cast<size_t>(cell_bytes(kPanel, args.stride)));
  TileStream<Product> stream(args.tiles, pass_tiles(args, kPanels), ring.get(), kLanes);
  for (int64_t first = 0; first < args.num_rows; first += kPanel) {
    cells.spoil();
    MlpNarrow<Product, kPanels>::run_warp(args, make_cells(cells.get(), kPanel, args.stride), first, stream);
  }
}

template <class Product, int kEach, int kStrips>
void run_wide(const MlpArgs& args) {
  using Mlp = MlpWide<Product, kEach, kStrips>;
  Memory shared(sizeof(typename Mlp::Shared)), cells(static_cast<size_t>(cell_bytes(Mlp::kRows, args.stride)));
  for (int64_t first = 0; first < args.num_rows; first += Mlp::kRows) {
    shared.spoil();
    cells.spoil();
    Mlp::run_block(args, make_cells(cells.get(), Mlp::kRows, args.stride),
                   *reinterpret_cast<typename Mlp::Shared*>(shared.get()), first);
  }
}

template <class Product, int kEach>
void run_wide(const MlpArgs& args, int64_t strips) {
  return strips == 4 ? run_wide<Product, kEach, 4>(args) : run_wide<Product, kEach, 2>(args);
}

template <class Product>
void run(const MlpArgs& args, int64_t strips) {
  switch (padded_panels(args.width)) {
    case 2:
      return run_narrow<Product, 2>(args);
    case 4:
      return run_narrow<Product, 4>(args);
    case 6:
      return run_narrow<Product, 6>(args);
    case 8:
      return run_narrow<Product, 8>(args);
    case 16:
      return run_wide<Product, 2>(args, strips);
    case 24:
      return run_wide<Product, 3>(args, strips);
    default:
      return run_wide<Product, 4>(args, strips);
  }
}

}  // namespace

extern "C" {

struct MlpCall {
  int64_t num_continuous, num_categorical, width, hidden, blocks, steps, num_rows, precision, strips;
  const int64_t* offsets;
  const char* weights;
  const float *sigmas, *shifts, *coefficients;
  const int64_t *keys, *rows;
  const uint8_t* states;
  const float* x;
  float* out;
};

// The bytes of packed weights that the glue asks for.
int64_t host_mlp_bytes(const MlpCall* call) {
  const Columns columns{static_cast<int>(call->num_continuous), static_cast<int>(call->num_categorical),
                        static_cast<int>(call->width), call->offsets};
  return mlp_weights(columns, static_cast<int>(call->hidden), static_cast<int>(call->blocks),
                     static_cast<Precision>(call->precision))
      .bytes;
}

// A sum as the emulated tensor cores round it.
float host_toward_zero(double sum) { return toward_zero(sum); }

// Steps of 0 predict.
void host_mlp(const MlpCall* call) {
  MlpArgs args{};
  args.columns = {static_cast<int>(call->num_continuous), static_cast<int>(call->num_categorical),
                  static_cast<int>(call->width), call->offsets};
  args.sigmas = call->sigmas;
  args.shifts = call->shifts;
  args.coefficients = call->coefficients;
  args.keys = call->keys;
  args.rows = call->rows;
  args.states = call->states;
  args.x = call->x;
  args.num_rows = call->num_rows;
  args.out = call->out;
  const Precision precision = static_cast<Precision>(call->precision);
  describe_mlp(args, call->weights, static_cast<int>(call->hidden), static_cast<int>(call->blocks),
               static_cast<int>(call->steps), precision);
  return precision == Precision::kBfloat16 ? run<InBfloat16>(args, call->strips) : run<InFloat32>(args, call->strips);
}

struct PlanCall {
  int64_t cells, hidden, num_rows, precision, processors, block_bytes;  // asked
  int64_t fits, strips, warps, shared_cells, shared_bytes, cell_bytes;  // told
};

// The plan of a block for drawing rows of so many encoded columns.
void host_mlp_plan(PlanCall* call) {
  MlpArgs args{};
  args.columns.width = args.columns.continuous = static_cast<int>(call->cells);
  args.num_rows = call->num_rows;
  const Precision precision = static_cast<Precision>(call->precision);
  describe_mlp(args, nullptr, static_cast<int>(call->hidden), 3, 15, precision);
  const MlpPlan plan = plan_block(args, precision, {static_cast<int>(call->processors), call->block_bytes});
  call->fits = plan.fits;
  call->strips = plan.strips;
  call->warps = plan.warps;
  call->shared_cells = plan.shared_cells;
  call->shared_bytes = plan.shared_bytes;
  call->cell_bytes = plan.fits ? block_cells(args, plan) : 0;
}

}  // extern "C"
