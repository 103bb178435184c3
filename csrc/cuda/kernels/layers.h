// The layers of a training step between two matrix products; see missdiff_fast.ops.reference.layers. All sums are taken
// in an order that depends on shapes only.
#pragma once

#include "../../cells.h"
#include "grid.h"

namespace missdiff::cuda {

// Rows whose numbers are adjacent and which begin `stride` numbers apart, as some columns of a matrix do.
template <class T>
struct Rows {
  T* first;
  int64_t stride;
  MISSDIFF_MEMBER T* operator[](int64_t i) const { return first + i * stride; }
};

constexpr float kNormEpsilon = 1e-5f;  // torch.nn.LayerNorm's

constexpr int kRowThreads = 32;    // of a row
constexpr int kRowsTogether = 2;   // of a block: few, so that a batch of 256 rows occupies most of a large card
constexpr int kSiluRows = 4;       // the same, where a row has no threads of its own
constexpr int kSumColumns = 32;    // of a block
constexpr int kSumThreads = 1024;  // of a block

// Adds the numbers of a row's threads. Each thread adds all of them in one order: the reads are independent of one
// another, so that this takes less time than a tree with a barrier for each level.
MISSDIFF_INLINE float add_row(const float* sums) {
  float sum = 0.0f;
  MISSDIFF_UNROLL(32)
  for (int t = 0; t < kRowThreads; ++t) sum += sums[t];
  return sum;
}

// LayerNorm of h + bias, with the embedded noise level added.
struct NormForward {
  struct Args {
    Rows<const float> h;
    const float *bias, *gain, *shift;  // [W]
    Rows<const float> level;           // first is null without a level
    const float* level_bias;           // [W], or null
    Rows<float> out, next;             // next gets h + bias; its first is null where that is not wanted
    float* stats;                      // [B, 2] mean and 1 / standard deviation
    int64_t num_rows;
    int width;
  };
  static constexpr int kThreads = kRowsTogether * kRowThreads;
  static constexpr int kPhases = 3;

  static int64_t num_blocks(int64_t num_rows) { return (num_rows + kRowsTogether - 1) / kRowsTogether; }
  static int64_t shared_bytes(const Args&) { return 2 * kThreads * static_cast<int64_t>(sizeof(float)); }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const int lane = place.thread % kRowThreads, W = args.width;
    const int64_t i = place.block * kRowsTogether + place.thread / kRowThreads;
    if (i >= args.num_rows) return;
    float* sums = reinterpret_cast<float*>(shared) + (place.thread - lane);
    float* squares = sums + kThreads;
    const float* h = args.h[i];
    const float* bias = args.bias;
    if constexpr (kPhase == 0) {
      float sum = 0.0f;
      for (int j = lane; j < W; j += kRowThreads) sum += h[j] + bias[j];
      sums[lane] = sum;
      return;
    }
    const float mean = add_row(sums) / static_cast<float>(W);
    if constexpr (kPhase == 1) {
      float sum = 0.0f;
      for (int j = lane; j < W; j += kRowThreads) {
        const float centred = h[j] + bias[j] - mean;
        sum += centred * centred;
      }
      squares[lane] = sum;
      return;
    }
    const float scale = 1.0f / square_root(add_row(squares) / static_cast<float>(W) + kNormEpsilon);
    const float* level = args.level.first != nullptr ? args.level[i] : nullptr;
    for (int j = lane; j < W; j += kRowThreads) {
      const float x = h[j] + bias[j];
      float y = (x - mean) * scale * args.gain[j] + args.shift[j];
      if (level != nullptr) y += level[j] + args.level_bias[j];
      args.out[i][j] = y;
      if (args.next.first != nullptr) args.next[i][j] = x;
    }
    if (lane == 0) {
      args.stats[2 * i] = mean;
      args.stats[2 * i + 1] = scale;
    }
  }
};

// Gradient of NormForward with respect to h, plus `residual`. h becomes the rows whose sum is the gain's gradient.
struct NormBackward {
  struct Args {
    Rows<float> h;
    const float *bias, *gain;    // [W]
    const float* stats;          // [B, 2]
    Rows<const float> grad;      // of the result
    Rows<const float> residual;  // first is null where there is none
    Rows<float> out;
    Rows<float> level;  // gradient of the level; first is null without a level
    bool add;           // to the level's gradient, or overwrite it
    int64_t num_rows;
    int width;
  };
  static constexpr int kThreads = kRowsTogether * kRowThreads;
  static constexpr int kPhases = 2;

  static int64_t num_blocks(int64_t num_rows) { return NormForward::num_blocks(num_rows); }
  static int64_t shared_bytes(const Args&) { return 2 * kThreads * static_cast<int64_t>(sizeof(float)); }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    const int lane = place.thread % kRowThreads, W = args.width;
    const int64_t i = place.block * kRowsTogether + place.thread / kRowThreads;
    if (i >= args.num_rows) return;
    float* sums = reinterpret_cast<float*>(shared) + (place.thread - lane);
    float* products = sums + kThreads;
    float* h = args.h[i];
    const float* grad = args.grad[i];
    const float mean = args.stats[2 * i], scale = args.stats[2 * i + 1];
    if constexpr (kPhase == 0) {
      float sum = 0.0f, product = 0.0f;
      for (int j = lane; j < W; j += kRowThreads) {
        const float scaled = grad[j] * args.gain[j];
        sum += scaled;
        product += scaled * ((h[j] + args.bias[j] - mean) * scale);
      }
      sums[lane] = sum;
      products[lane] = product;
      return;
    }
    const float sum = add_row(sums) / static_cast<float>(W), product = add_row(products) / static_cast<float>(W);
    const float* residual = args.residual.first != nullptr ? args.residual[i] : nullptr;
    for (int j = lane; j < W; j += kRowThreads) {
      const float g = grad[j], x = (h[j] + args.bias[j] - mean) * scale;
      const float inner = scale * (g * args.gain[j] - sum - x * product);
      args.out[i][j] = residual != nullptr ? residual[j] + inner : inner;
      h[j] = g * x;
      if (args.level.first != nullptr) args.level[i][j] = args.add ? args.level[i][j] + g : g;
    }
  }
};

MISSDIFF_INLINE float sigmoid(float x) {
  const float e = exp_negative(-absolute(x)), large = 1.0f / (1.0f + e);
  return x >= 0.0f ? large : e * large;
}

// SiLU of x + bias.
struct SiluForward {
  struct Args {
    Rows<const float> x;
    const float* bias;  // [N]
    Rows<float> out;
    int64_t num_rows;
    Divider width;
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 1;

  static int64_t num_blocks(int64_t num_rows) { return (num_rows + kSiluRows - 1) / kSiluRows; }
  static int64_t shared_bytes(const Args&) { return 0; }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char*) {
    const int64_t first = place.block * kSiluRows, left = args.num_rows - first;
    const int N = static_cast<int>(args.width.divisor), n = static_cast<int>(left < kSiluRows ? left : kSiluRows);
    for (int item = place.thread; item < n * N; item += kThreads) {
      const int i = quotient(item, args.width), j = item - i * N;
      const float x = args.x[first + i][j] + args.bias[j];
      args.out[first + i][j] = x * sigmoid(x);
    }
  }
};

// x becomes the gradient with respect to it.
struct SiluBackward {
  struct Args {
    Rows<float> x;
    const float* bias;  // [N]
    Rows<const float> grad;
    int64_t num_rows;
    Divider width;
  };
  static constexpr int kThreads = cuda::kThreads;
  static constexpr int kPhases = 1;

  static int64_t num_blocks(int64_t num_rows) { return SiluForward::num_blocks(num_rows); }
  static int64_t shared_bytes(const Args&) { return 0; }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char*) {
    const int64_t first = place.block * kSiluRows, left = args.num_rows - first;
    const int N = static_cast<int>(args.width.divisor), n = static_cast<int>(left < kSiluRows ? left : kSiluRows);
    for (int item = place.thread; item < n * N; item += kThreads) {
      const int i = quotient(item, args.width), j = item - i * N;
      const float x = args.x[first + i][j] + args.bias[j], s = sigmoid(x);
      args.x[first + i][j] = args.grad[first + i][j] * (s * (1.0f + x * (1.0f - s)));
    }
  }
};

// Sums over the rows, each stored at a place of its own.
struct ColumnSums {
  struct Args {
    Rows<const float> x;    // [B, columns]
    const int64_t* places;  // [columns] of the sums in `out`; negative where a column is not summed
    float* out;
    int64_t num_rows, columns, size;  // size of `out`
  };
  static constexpr int kThreads = kSumThreads;
  static constexpr int kPhases = 2;
  static constexpr int kParts = kThreads / kSumColumns;  // of the rows

  static int64_t num_blocks(int64_t columns) { return (columns + kSumColumns - 1) / kSumColumns; }
  static int64_t shared_bytes(const Args&) { return kThreads * static_cast<int64_t>(sizeof(float)); }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char* shared) {
    float* sums = reinterpret_cast<float*>(shared);
    const int part = place.thread / kSumColumns, own = place.thread % kSumColumns;
    const int64_t column = place.block * kSumColumns + own;
    if (column >= args.columns) return;
    const int64_t to = args.places[column];
    if (to < 0) return;
    if constexpr (kPhase == 0) {
      float sum = 0.0f;
      MISSDIFF_UNROLL(8)
      for (int64_t i = part; i < args.num_rows; i += kParts) sum += args.x[i][column];
      sums[place.thread] = sum;
    } else if (part == 0) {
      require(to < args.size);
      float sum = 0.0f;
      MISSDIFF_UNROLL(32)
      for (int p = 0; p < kParts; ++p) sum += sums[p * kSumColumns + own];
      args.out[to] = sum;
    }
  }
};

// Stores a number at a place that the device counts, and goes on to the next place.
struct StoreNext {
  struct Args {
    float* out;
    int64_t* place;
    const float* value;
    int64_t size;  // of `out`
  };
  static constexpr int kThreads = 32;
  static constexpr int kPhases = 1;

  static int64_t shared_bytes(const Args&) { return 0; }

  template <int kPhase>
  MISSDIFF_INLINE void run(const Args& args, const Place& place, char*) {
    if (place.thread != 0) return;
    const int64_t to = *args.place;
    require(0 <= to && to < args.size);
    args.out[to] = *args.value;
    *args.place = to + 1;
  }
};

}  // namespace missdiff::cuda
