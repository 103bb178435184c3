#include "rows.h"
#include "search.h"

namespace missdiff {
namespace {

// The first of the largest entries. A group with a NaN has none: its code is the number of categories.
template <class T>
void argmax_groups(const Columns& columns, const T* __restrict x, int16_t* __restrict codes) {
  for (int64_t r = 0; r < columns.num_runs; ++r) {
    const Run run = columns.runs[r];
    const T* __restrict in = x + run.column;
    int16_t* __restrict out = codes + run.first;
    if (run.size == 2) {
      for (int64_t k = 0; k < run.groups; ++k) {
        const T a = in[2 * k], b = in[2 * k + 1];
        const int32_t code = b > a ? 1 : 0;
        out[k] = static_cast<int16_t>((a != a) | (b != b) ? 2 : code);
      }
    } else {
      for (int64_t k = 0; k < run.groups; ++k) {
        T largest = in[0];
        int64_t code = 0;
        bool nan = in[0] != in[0];
        for (int64_t j = 1; j < run.size; ++j) {
          nan |= in[j] != in[j];
          code = in[j] > largest ? j : code;
          largest = in[j] > largest ? in[j] : largest;
        }
        out[k] = static_cast<int16_t>(nan ? run.size : code);
        in += run.size;
      }
    }
  }
}

template <class T>
int decode_rows(const DecodeArgs& args, int64_t begin, int64_t end, char* memory) {
  const Columns& columns = args.columns;
  const int64_t C = columns.continuous, K = columns.categorical, D = columns.width;
  Scratch scratch(memory);
  T* scores = scratch.take<T>(kDecodeRows);
  int32_t* places = scratch.take<int32_t>(kDecodeRows);
  const T* boundaries = static_cast<const T*>(args.boundaries);
  for (int64_t first = begin; first < end; first += kDecodeRows) {
    const int64_t n = end - first < kDecodeRows ? end - first : kDecodeRows;
    const T* x = static_cast<const T*>(args.x) + first * D;
    for (int64_t i = 0; i < n; ++i) argmax_groups(columns, x + i * D, args.codes + (first + i) * K);
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t i = 0; i < n; ++i) scores[i] = x[i * D + c];
      search(boundaries + args.starts[c], args.starts[c + 1] - args.starts[c], scores, n, places);
      for (int64_t i = 0; i < n; ++i) args.places[(first + i) * C + c] = places[i];
    }
  }
  return 0;
}

}  // namespace

namespace MISSDIFF_ISA {

int decode(const DecodeArgs& args, int64_t begin, int64_t end, char* scratch) {
  return args.type == Type::kDouble ? decode_rows<double>(args, begin, end, scratch)
                                    : decode_rows<float>(args, begin, end, scratch);
}

}  // namespace MISSDIFF_ISA
}  // namespace missdiff
