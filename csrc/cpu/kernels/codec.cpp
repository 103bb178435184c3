#include "../../quantile.h"
#include "rows.h"
#include "search.h"

namespace missdiff::cpu {
namespace {

constexpr int64_t kCells = 256;  // encoded together

// Position of each cell among the keys: the index of the key that it equals, or the number of keys below it.
template <class T>
void find(const T* __restrict keys, int64_t size, const T* __restrict cells, int64_t n, int32_t* __restrict place,
          bool* __restrict known) {
  search(keys, size, cells, n, place);
  for (int64_t i = 0; i < n; ++i) {
    const int32_t last = place[i] > 0 ? place[i] - 1 : 0;
    known[i] = keys[last] == cells[i];
    place[i] -= known[i];
  }
}

// Normal quantiles of n <= kCells numbers in (0, 1). The middle formula is applied to all; the tails are then gathered
// and overwritten. All loops but those of the logarithms vectorise.
void quantiles(const double* __restrict u, int64_t n, double* __restrict out) {
  int32_t where[kCells];
  double x[kCells], log_x[kCells], tail[kCells];
  int64_t tails = 0;
  for (int64_t i = 0; i < n; ++i) out[i] = normal_quantile_middle(u[i]);
  for (int64_t i = 0; i < n; ++i) {
    where[tails] = static_cast<int32_t>(i);
    tails += (u[i] <= kTail) | (u[i] > 1.0 - kTail);
  }
  for (int64_t j = 0; j < tails; ++j) {
    const double at = u[where[j]];
    tail[j] = at > 0.5 ? 1.0 - at : at;
  }
  for (int64_t j = 0; j < tails; ++j) x[j] = __builtin_log(tail[j]);
  for (int64_t j = 0; j < tails; ++j) x[j] = __builtin_sqrt(-2.0 * x[j]);
  for (int64_t j = 0; j < tails; ++j) log_x[j] = __builtin_log(x[j]);
  for (int64_t j = 0; j < tails; ++j) tail[j] = normal_quantile_tail(x[j], log_x[j]);
  for (int64_t j = 0; j < tails; ++j) {
    const double quantile = x[j] < 8.0 ? tail[j] : normal_quantile_far(x[j], log_x[j]);
    out[where[j]] = u[where[j]] > 0.5 ? quantile : -quantile;
  }
}

template <class T>
void encode_cells(const EncodeArgs& args, int64_t begin, int64_t end) {
  const int64_t last = args.num_keys - 1;
  int32_t place[kCells];
  bool known[kCells];
  double u[kCells], score[kCells];
  for (int64_t first = begin; first < end; first += kCells) {
    const int64_t n = end - first < kCells ? end - first : kCells;
    const double* share = args.share == nullptr ? nullptr : args.share + first;
    float* __restrict out = args.scores + first;
    find(static_cast<const T*>(args.keys), args.num_keys, static_cast<const T*>(args.cells) + first, n, place, known);
    if (args.middles != nullptr) {
      int64_t others = 0;
      for (int64_t i = 0; i < n; ++i) {
        out[i] = args.middles[known[i] ? place[i] : 0];
        others += !known[i];
      }
      if (others == 0) continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      const double start = args.ends[place[i]];
      const double width = known[i] ? args.ends[place[i] + 1] - start : 0.0;
      u[i] = start + width * (share == nullptr ? 0.5 : share[i]);
      u[i] = u[i] < args.least ? args.least : u[i];
      u[i] = u[i] > args.most ? args.most : u[i];
    }
    quantiles(u, n, score);
    for (int64_t i = 0; i < n; ++i) {
      // Rounding to float32 must not carry a key over its boundary.
      const int32_t k = place[i];
      float rounded = static_cast<float>(score[i]);
      if (known[i] && k > 0 && rounded < args.boundaries[k - 1]) rounded = args.boundaries[k - 1];
      if (known[i] && k < last && rounded >= args.boundaries[k]) {
        rounded = __builtin_nextafterf(args.boundaries[k], -__builtin_inff());
      }
      out[i] = rounded;
    }
  }
}

template <class T>
void argmax_groups(const Columns& columns, const T* __restrict x, int16_t* __restrict codes) {
  for (int64_t r = 0; r < columns.num_runs; ++r) {
    const Run run = columns.runs[r];
    const T* __restrict in = x + run.column;
    int16_t* __restrict out = codes + run.first;
    if (run.size == 2) {
      for (int64_t k = 0; k < run.groups; ++k) {
        out[k] = static_cast<int16_t>(argmax_group(in + 2 * k, 2));
      }
    } else {
      for (int64_t k = 0; k < run.groups; ++k) {
        out[k] = static_cast<int16_t>(argmax_group(in, static_cast<int32_t>(run.size)));
        in += run.size;
      }
    }
  }
}

constexpr int64_t kDecodeRows = 128;  // decoded together

template <class T>
struct DecodeMemory {
  T* scores;           // [kDecodeRows]
  int32_t* bin_index;  // [kDecodeRows]

  DecodeMemory(const DecodeArgs&, Scratch& scratch) {
    scores = scratch.take<T>(kDecodeRows);
    bin_index = scratch.take<int32_t>(kDecodeRows);
  }
};

template <class T>
int decode_rows(const DecodeArgs& args, int64_t begin, int64_t end, char* memory) {
  const Columns& columns = args.columns;
  const int64_t C = columns.continuous, K = columns.categorical, D = columns.width;
  Scratch scratch(memory);
  const DecodeMemory<T> pieces(args, scratch);
  T* scores = pieces.scores;
  int32_t* bin_index = pieces.bin_index;
  const T* boundaries = static_cast<const T*>(args.boundaries);
  for (int64_t first = begin; first < end; first += kDecodeRows) {
    const int64_t n = end - first < kDecodeRows ? end - first : kDecodeRows;
    const T* x = static_cast<const T*>(args.x) + first * D;
    for (int64_t i = 0; i < n; ++i) argmax_groups(columns, x + i * D, args.codes + (first + i) * K);
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t i = 0; i < n; ++i) scores[i] = x[i * D + c];
      search(boundaries + args.starts[c], args.starts[c + 1] - args.starts[c], scores, n, bin_index);
      for (int64_t i = 0; i < n; ++i) args.bin_index[(first + i) * C + c] = bin_index[i];
    }
  }
  return 0;
}

}  // namespace

namespace MISSDIFF_ISA {

size_t encode_bytes(const EncodeArgs&) { return 0; }

int encode(const EncodeArgs& args, int64_t begin, int64_t end, char*) {
  if (args.type == Type::kLong) encode_cells<int64_t>(args, begin, end);
  if (args.type == Type::kDouble) encode_cells<double>(args, begin, end);
  if (args.type == Type::kFloat) encode_cells<float>(args, begin, end);
  return 0;
}

size_t decode_bytes(const DecodeArgs& args) {
  return args.type == Type::kDouble ? bytes_of<DecodeMemory<double>>(args) : bytes_of<DecodeMemory<float>>(args);
}

int decode(const DecodeArgs& args, int64_t begin, int64_t end, char* scratch) {
  return args.type == Type::kDouble ? decode_rows<double>(args, begin, end, scratch)
                                    : decode_rows<float>(args, begin, end, scratch);
}

}  // namespace MISSDIFF_ISA
}  // namespace missdiff::cpu
