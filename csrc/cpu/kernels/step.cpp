#include "softmax.h"
#include "solver.h"

namespace missdiff::cpu {
namespace {

template <class T>
struct StepMemory {
  NoiseTile tile;
  int32_t* state;     // [D]
  T *logits, *norms;  // [D], [K]

  StepMemory(const StepArgs& args, Scratch& scratch) : tile(noise_tile(args.columns.width, scratch)) {
    state = scratch.take<int32_t>(args.columns.width);
    logits = scratch.take<T>(args.columns.width);
    norms = scratch.take<T>(args.columns.categorical);
  }
};

template <class T, class P>
int step_rows(const StepArgs& args, int64_t begin, int64_t end, char* memory) {
  const Columns& columns = args.columns;
  const int64_t C = columns.continuous, K = columns.categorical, D = columns.width;
  Scratch scratch(memory);
  const StepMemory<T> pieces(args, scratch);
  const NoiseTile& tile = pieces.tile;
  int32_t* __restrict state = pieces.state;
  T* __restrict logits = pieces.logits;
  T* norms = pieces.norms;
  const double* given = args.coefficients;
  const StepCoefficients<T> coefficients{static_cast<T>(given[0]), static_cast<T>(given[1]), static_cast<T>(given[2]),
                                         static_cast<T>(given[3])};
  const bool noise = coefficients.noise != T(0);
  for (int64_t first = begin; first < end; first += tile.rows) {
    const int64_t n = end - first < tile.rows ? end - first : tile.rows;
    if (noise) fill_noise<true>(tile, args.rows + first, n, args.seed, args.step);
    for (int64_t i = first; i < first + n; ++i) {
      spread(columns, args.states + i * (C + K), state);
      const P* __restrict in = static_cast<const P*>(args.prediction) + i * args.prediction_width;
      T* __restrict p = static_cast<T*>(args.p) + i * D;
      const int64_t copied = args.softmax ? C : D;
      for (int64_t d = 0; d < copied; ++d) p[d] = static_cast<T>(widen(in[d]));
      if (args.softmax) {
        for (int64_t d = C; d < D; ++d) logits[d] = static_cast<T>(widen(in[d]));
        softmax_groups(columns, logits, norms, p);
      }
      const T* previous = args.previous ? static_cast<const T*>(args.previous) + i * D : nullptr;
      const float* eps = noise ? tile.values + (i - first) * tile.stride : nullptr;
      step_row(coefficients, state, static_cast<const T*>(args.x) + i * D, p, previous, eps, D,
               static_cast<T*>(args.next) + i * D);
    }
  }
  return 0;
}

}  // namespace

namespace MISSDIFF_ISA {

size_t step_bytes(const StepArgs& args) {
  return args.type == Type::kDouble ? bytes_of<StepMemory<double>>(args) : bytes_of<StepMemory<float>>(args);
}

int step(const StepArgs& args, int64_t begin, int64_t end, char* scratch) {
  const bool half = args.prediction_type == Type::kBfloat16;
  if (args.type == Type::kDouble) {
    return half ? step_rows<double, Bfloat16>(args, begin, end, scratch)
                : step_rows<double, double>(args, begin, end, scratch);
  }
  return half ? step_rows<float, Bfloat16>(args, begin, end, scratch)
              : step_rows<float, float>(args, begin, end, scratch);
}

}  // namespace MISSDIFF_ISA
}  // namespace missdiff::cpu
