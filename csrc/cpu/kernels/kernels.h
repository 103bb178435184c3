// The row kernels: raw pointers in, no tensors, no exceptions. Each .cpp of this folder is compiled once for each
// instruction set, with MISSDIFF_ISA set to the namespace that holds its entry points. Everything else in those files
// and in the headers they include has internal linkage, so that no AVX code can be linked into the baseline.
#pragma once

#include <cstddef>
#include <cstdint>

namespace missdiff {

enum class Type : int32_t { kFloat, kDouble, kBfloat16 };

// Consecutive groups of the same size.
struct Run {
  int64_t first;   // group
  int64_t groups;  // how many
  int64_t size;    // categories of each
  int64_t column;  // encoded column of the first
};

// How the columns lie in the encoded row; see missdiff_fast.table.Layout.
struct Columns {
  int64_t continuous;    // C
  int64_t categorical;   // K
  int64_t width;         // D
  const int64_t* begin;  // [K + 1] first encoded column of each group
  const int16_t* last;   // [K] the largest code of each group
  const Run* runs;
  int64_t num_runs;
};

struct NoiseArgs {
  const int64_t* rows;  // [B]
  int64_t columns;
  int64_t seed, step;
  bool normal;  // else uniform
  float* out;   // [B, columns]
};

// The table and the batch drawn from it.
struct BatchArgs {
  Columns columns;
  Type type;               // of continuous and values
  const void* continuous;  // [N, C]
  const int16_t* codes;    // [N, K]
  const void* values;      // [N, C]
  const int64_t* rows;     // [B] each in [0, N)
  const uint8_t* states;   // [B, J]
  int64_t num_rows;        // B
  int64_t seed, step;
};

struct PerturbArgs {
  BatchArgs batch;
  const void* alpha;  // [B]
  const void* sigma;  // [B]
  double low, high;
  Type out_type;
  void* out;  // [B, D]
};

// Rows whose loss is added up in one go: fixed, so that the sum does not depend on the number of threads.
constexpr int64_t kLossBlock = 64;

struct CountArgs {
  BatchArgs batch;
  bool noisy_width;  // count encoded columns of observed noisy cells; else observed cells
  int64_t* counts;   // [blocks]
};

struct LossArgs {
  BatchArgs batch;
  Type prediction_type;
  const void* prediction;     // [B, D + C]
  const void* weight;         // [B]
  const void* column_weight;  // [J] or null for ones
  double mean_weight;
  double scale;      // 1 / count
  void* grad;        // as prediction
  double* partials;  // [blocks]
};

struct NoiseLossArgs {
  BatchArgs batch;
  Type prediction_type;
  const void* prediction;  // [B, D]
  double scale;
  void* grad;
  double* partials;
};

struct StepArgs {
  Columns columns;
  Type type;  // of x
  Type prediction_type;
  const void* x;           // [B, D]
  const void* prediction;  // [B, prediction_width]
  int64_t prediction_width;
  const void* previous;   // [B, D] or null
  const uint8_t* states;  // [B, J]
  double coefficients[4];
  const int64_t* rows;  // [B]
  int64_t seed, step;
  bool softmax;
  void* next;  // [B, D]
  void* p;     // [B, D]
};

struct DecodeArgs {
  Columns columns;
  Type type;
  const void* x;           // [B, D]
  const void* boundaries;  // [M]
  const int64_t* starts;   // [C + 1]
  int32_t* places;         // [B, C]
  int16_t* codes;          // [B, K]
};

// Every kernel has this form: rows (or, for counts and losses, blocks of kLossBlock rows) begin to end, and scratch
// memory aligned to 64 bytes. The result is not 0 if a code was out of range; what was written is then meaningless.
#define MISSDIFF_KERNELS(X) \
  X(noise, NoiseArgs)       \
  X(perturb, PerturbArgs)   \
  X(count, CountArgs) X(loss, LossArgs) X(noise_loss, NoiseLossArgs) X(step, StepArgs) X(decode, DecodeArgs)

#define MISSDIFF_DECLARE(name, Args) int name(const Args& args, int64_t begin, int64_t end, char* scratch);
#define MISSDIFF_MEMBER(name, Args) int (*name)(const Args& args, int64_t begin, int64_t end, char* scratch);

namespace baseline {
MISSDIFF_KERNELS(MISSDIFF_DECLARE)
}
namespace avx2 {
MISSDIFF_KERNELS(MISSDIFF_DECLARE)
}
namespace avx512 {
MISSDIFF_KERNELS(MISSDIFF_DECLARE)
}

struct Kernels {
  const char* name;
  MISSDIFF_KERNELS(MISSDIFF_MEMBER)
};

// Blocks of Philox in a tile of noise, at least; a tile is at least one row.
constexpr int64_t kTileBlocks = 512;
constexpr int64_t kDecodeRows = 128;

// Enough scratch memory for one thread in any kernel, in bytes.
static inline size_t scratch_bytes(int64_t width, int64_t continuous, int64_t categorical) {
  const int64_t noise = 4 * (kTileBlocks + width / 4 + 64) * 4;
  const int64_t row = 8 * 8 * (width + continuous + categorical + 64);
  const int64_t decode = kDecodeRows * 8 * 2;
  return static_cast<size_t>(noise + row + decode + 4096);
}

}  // namespace missdiff
