#include "rows.h"

namespace missdiff::cpu {
namespace {

struct RandomMemory {
  NoiseTile tile;

  RandomMemory(const RandomArgs& args, Scratch& scratch) : tile(noise_tile(args.columns, scratch)) {}
};

template <bool kNormal>
void fill_rows(const RandomArgs& args, int64_t begin, int64_t end, char* memory) {
  Scratch scratch(memory);
  const NoiseTile tile = RandomMemory(args, scratch).tile;
  for (int64_t first = begin; first < end; first += tile.rows) {
    const int64_t n = end - first < tile.rows ? end - first : tile.rows;
    fill_noise<kNormal>(tile, args.rows + first, n, args.seed, args.step);
    for (int64_t i = 0; i < n; ++i) {
      __builtin_memcpy(args.out + (first + i) * args.columns, tile.values + i * tile.stride,
                       static_cast<size_t>(args.columns) * sizeof(float));
    }
  }
}

}  // namespace

namespace MISSDIFF_ISA {

size_t random_bytes(const RandomArgs& args) { return bytes_of<RandomMemory>(args); }

int random(const RandomArgs& args, int64_t begin, int64_t end, char* scratch) {
  args.normal ? fill_rows<true>(args, begin, end, scratch) : fill_rows<false>(args, begin, end, scratch);
  return 0;
}

}  // namespace MISSDIFF_ISA
}  // namespace missdiff::cpu
