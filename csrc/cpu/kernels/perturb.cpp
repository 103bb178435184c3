#include "rows.h"

namespace missdiff::cpu {
namespace {

// Writes the clean encoded row, with 0 where a cell is missing.
template <class T>
void expand_row(const Columns& columns, const T* __restrict cells, const int32_t* __restrict codes, T low, T high,
                T* __restrict x0) {
  for (int64_t c = 0; c < columns.continuous; ++c) x0[c] = cells[c] == cells[c] ? cells[c] : T(0);
  for (int64_t r = 0; r < columns.num_runs; ++r) {
    const Run run = columns.runs[r];
    const int32_t* __restrict code = codes + run.first;
    T* __restrict out = x0 + run.column;
    if (run.size == 2) {
      for (int64_t k = 0; k < run.groups; ++k) {
        const T off = code[k] < 0 ? T(0) : low;
        out[2 * k] = code[k] == 0 ? high : off;
        out[2 * k + 1] = code[k] == 1 ? high : off;
      }
    } else {
      for (int64_t k = 0; k < run.groups; ++k) {
        const T off = code[k] < 0 ? T(0) : low;
        for (int64_t j = 0; j < run.size; ++j) out[j] = off;
        if (code[k] >= 0) out[code[k]] = high;
        out += run.size;
      }
    }
  }
}

template <class T>
struct PerturbMemory {
  NoiseTile tile;
  T* x0;                   // [D]
  int32_t *state, *codes;  // [D], [K]

  PerturbMemory(const PerturbArgs& args, Scratch& scratch) : tile(noise_tile(args.batch.columns.width, scratch)) {
    x0 = scratch.take<T>(args.batch.columns.width);
    state = scratch.take<int32_t>(args.batch.columns.width);
    codes = scratch.take<int32_t>(args.batch.columns.categorical);
  }
};

template <class T>
int perturb_rows(const PerturbArgs& args, int64_t begin, int64_t end, char* memory) {
  const BatchArgs& batch = args.batch;
  const Columns& columns = batch.columns;
  const int64_t C = columns.continuous, K = columns.categorical, D = columns.width;
  Scratch scratch(memory);
  const PerturbMemory<T> pieces(args, scratch);
  const NoiseTile& tile = pieces.tile;
  T* __restrict x0 = pieces.x0;
  int32_t* __restrict state = pieces.state;
  int32_t* codes = pieces.codes;
  const T low = static_cast<T>(args.low), high = static_cast<T>(args.high);
  int bad = 0;
  for (int64_t first = begin; first < end; first += tile.rows) {
    const int64_t n = end - first < tile.rows ? end - first : tile.rows;
    fill_noise<true>(tile, batch.rows + first, n, batch.seed, batch.step);
    for (int64_t i = first; i < first + n; ++i) {
      prefetch_row<T>(batch, i + tile.rows, false);
      const int64_t row = batch.rows[i];
      if (load_codes(columns, batch.codes + row * K, codes)) {
        bad = 1;
        continue;
      }
      spread(columns, batch.states + i * (C + K), state);
      expand_row(columns, static_cast<const T*>(batch.continuous) + row * C, codes, low, high, x0);
      const T alpha = static_cast<const T*>(args.alpha)[i], sigma = static_cast<const T*>(args.sigma)[i];
      const float* __restrict eps = tile.values + (i - first) * tile.stride;
      T* __restrict out = static_cast<T*>(args.out) + i * D;
      for (int64_t d = 0; d < D; ++d) {
        out[d] = perturb_cell(state[d], x0[d], alpha, sigma, static_cast<T>(eps[d]));
      }
    }
  }
  return bad;
}

}  // namespace

namespace MISSDIFF_ISA {

size_t perturb_bytes(const PerturbArgs& args) {
  return args.batch.type == Type::kDouble ? bytes_of<PerturbMemory<double>>(args)
                                          : bytes_of<PerturbMemory<float>>(args);
}

int perturb(const PerturbArgs& args, int64_t begin, int64_t end, char* scratch) {
  return args.batch.type == Type::kDouble ? perturb_rows<double>(args, begin, end, scratch)
                                          : perturb_rows<float>(args, begin, end, scratch);
}

}  // namespace MISSDIFF_ISA
}  // namespace missdiff::cpu
