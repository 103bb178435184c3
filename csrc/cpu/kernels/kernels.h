// Kernels on raw pointers, without tensors and exceptions. Each .cpp file of this folder is compiled once for each
// instruction set, with MISSDIFF_ISA set to the namespace of its entry points. All else in these files and their
// headers has internal linkage, so that no AVX code is linked into the baseline.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../cells.h"

namespace missdiff::cpu {

enum class Type : int32_t { kFloat, kDouble, kBfloat16, kLong };

// Consecutive groups of the same size.
struct Run {
  int64_t first;   // group
  int64_t groups;  // how many
  int64_t size;    // categories of each
  int64_t column;  // encoded column of the first
};

// Layout of an encoded row; see missdiff_fast.table.encoded.Layout.
struct Columns {
  int64_t continuous;    // C
  int64_t categorical;   // K
  int64_t width;         // D
  const int64_t* begin;  // [K + 1] first encoded column of each group
  const int16_t* last;   // [K] the largest code of each group
  const Run* runs;
  int64_t num_runs;
};

struct RandomArgs {
  const int64_t* rows;  // [B]
  int64_t columns;
  int64_t seed, step;
  bool normal;  // else uniform
  float* out;   // [B, columns]
};

// A table and a batch of its rows.
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
  void* out;  // [B, D]
};

// Rows whose losses form one partial sum. It is fixed, so that the loss does not depend on the number of threads.
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

// The default network and a batch of rows to sample. Weights are packed by `missdiff_fast.networks.packing.pack`.
struct MlpArgs {
  Columns columns;
  const float* weights;
  int64_t width;   // W
  int64_t blocks;  // residual blocks
  int64_t steps;
  const float* sigmas;        // [steps]
  const float* shifts;        // [steps, blocks, W] added after each block's normalisation
  const float* coefficients;  // [steps, 4]
  const int64_t* keys;        // [steps, 2]
  const int64_t* rows;        // [B]
  const uint8_t* states;      // [B, J]
  const float* x;             // [B, D]
  int64_t num_rows;           // B
  float* out;                 // [B, D] of mlp_sample, [B, D + C] of mlp_predict
};

constexpr int64_t kPanel = 16;    // outputs that are computed together
constexpr int64_t kMlpRows = 60;  // of a tile; a multiple of the rows that each instruction set multiplies at once

static inline int64_t whole_panels(int64_t n) { return (n + kPanel - 1) / kPanel * kPanel; }

// Number of floats of one residual block of the packed weights.
static inline int64_t mlp_block_floats(int64_t width) {
  const int64_t W = whole_panels(width), twice = whole_panels(2 * width);
  return W + width * twice + twice + 2 * width * W + W;
}

// One training step of the default network. Weights, gradients and the optimiser's moments are laid out as by
// `missdiff_fast.networks.packing.flatten`.
struct MlpTrainArgs {
  PerturbArgs perturb;
  LossArgs loss;
  float* prediction;  // [B, D + C] which the loss reads
  int64_t width;      // W
  int64_t blocks;
  int64_t features;             // E of the noise level
  const float* level_features;  // [B, E]
  const float* weights;
  int64_t num_weights;
  char* transposed;  // matrices of the backward pass; see Transposes
  float* gradients;  // [buffers, num_weights]
  int64_t buffers;   // each sums the gradients of consecutive tiles of rows
};

// AdamW without decay, and the moving average of the weights.
struct AdamwArgs {
  const float* gradients;  // [buffers, num_weights]
  int64_t buffers;
  int64_t num_weights;
  float *weights, *exp_avg, *exp_avg_sq, *ema;  // [num_weights]
  AdamwFactors factors;
};

// Rows of a training tile, a multiple of kLossBlock. Each of up to four threads has a tile of a batch of 256 rows;
// tiles of 128 rows would take 3 % less time on one or two threads, and leave others idle.
constexpr int64_t kTrainRows = kLossBlock;
constexpr int64_t kUpdateBlock = 4096;  // weights

// Number of floats of a matrix of weights in panels.
static inline int64_t panel_floats(int64_t inputs, int64_t outputs) { return inputs * whole_panels(outputs); }

// Number of floats of the flat weights: inputs, the two layers of the noise level, blocks, last normalisation, outputs;
// see TrainWeights.
static inline int64_t mlp_train_floats(const Columns& columns, int64_t width, int64_t blocks, int64_t features) {
  const int64_t J = columns.continuous + columns.categorical, outputs = columns.width + columns.continuous;
  return panel_floats(columns.width + 2 * J, width) + panel_floats(features, width) + panel_floats(width, width) +
         5 * whole_panels(width) + blocks * (mlp_block_floats(width) + whole_panels(width)) +
         (width + 1) * whole_panels(outputs);
}

// One continuous column.
struct EncodeArgs {
  Type type;                // of cells and keys
  const void* cells;        // [N]
  const void* keys;         // [V]
  int64_t num_keys;         // V
  const double* ends;       // [V + 1]
  const float* boundaries;  // [V - 1]
  double least, most;       // ranks
  const double* share;      // [N] or null for the middle
  const float* middles;     // [V] scores of the keys where there is no share, or null
  float* scores;            // [N]
};

struct DecodeArgs {
  Columns columns;
  Type type;
  const void* x;           // [B, D]
  const void* boundaries;  // [M]
  const int64_t* starts;   // [C + 1]
  int32_t* bin_index;      // [B, C]
  int16_t* codes;          // [B, K]
};

// Every kernel works on the items [begin, end): rows (cells in encode); blocks of kLossBlock rows (count, losses), of
// kMlpRows rows (mlp_sample, mlp_predict) or of kUpdateBlock weights (adamw); matrices (mlp_transpose); or buffers of
// gradients (mlp_gradients). It returns nonzero if a code is out of range; its results are then meaningless. Each
// thread passes its own scratch memory, aligned to 64 bytes, of `NAME_bytes` bytes.
#define MISSDIFF_KERNELS(X)      \
  X(random, RandomArgs)          \
  X(perturb, PerturbArgs)        \
  X(count, CountArgs)            \
  X(loss, LossArgs)              \
  X(noise_loss, NoiseLossArgs)   \
  X(step, StepArgs)              \
  X(encode, EncodeArgs)          \
  X(decode, DecodeArgs)          \
  X(mlp_sample, MlpArgs)         \
  X(mlp_predict, MlpArgs)        \
  X(mlp_transpose, MlpTrainArgs) \
  X(mlp_gradients, MlpTrainArgs) \
  X(adamw, AdamwArgs)

template <class Args>
struct Kernel {
  int (*run)(const Args& args, int64_t begin, int64_t end, char* scratch);
  size_t (*bytes)(const Args& args);
};

#define MISSDIFF_DECLARE(name, Args)                                     \
  int name(const Args& args, int64_t begin, int64_t end, char* scratch); \
  size_t name##_bytes(const Args& args);
#define MISSDIFF_MEMBER_OF_TABLE(name, Args) Kernel<Args> name;

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
  MISSDIFF_KERNELS(MISSDIFF_MEMBER_OF_TABLE)
};

// Least number of Philox blocks in a tile of noise, which holds whole rows.
constexpr int64_t kTileBlocks = 512;

// Rows of training tiles are an odd number of cache lines apart: with a power of two, a column would map to few sets of
// the L1 cache.
static inline int64_t train_stride(int64_t n) { return (whole_panels(n) / kPanel | 1) * kPanel; }

}  // namespace missdiff::cpu
