#include "softmax.h"

namespace missdiff::cpu {
namespace {

template <class T>
int count_blocks(const CountArgs& args, int64_t begin, int64_t end) {
  const BatchArgs& batch = args.batch;
  const Columns& columns = batch.columns;
  const int64_t C = columns.continuous, K = columns.categorical;
  int bad = 0;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kLossBlock;
    const int64_t last = first + kLossBlock < batch.num_rows ? first + kLossBlock : batch.num_rows;
    int64_t count = 0;
    for (int64_t i = first; i < last; ++i) {
      prefetch_row<T>(batch, i + kAhead, false);
      const T* __restrict cells = static_cast<const T*>(batch.continuous) + batch.rows[i] * C;
      const int16_t* __restrict codes = batch.codes + batch.rows[i] * K;
      int32_t n = 0, too_large = 0;
      for (int64_t k = 0; k < K; ++k) too_large |= codes[k] > columns.last[k];
      bad |= too_large;
      if (args.noisy_width) {
        const uint8_t* __restrict states = batch.states + i * (C + K);
        for (int64_t c = 0; c < C; ++c) n += (cells[c] == cells[c]) & (states[c] == kNoisy);
        for (int64_t k = 0; k < K; ++k) {
          n += (codes[k] >= 0) & (states[C + k] == kNoisy) ? static_cast<int32_t>(columns.last[k]) + 1 : 0;
        }
      } else {
        for (int64_t c = 0; c < C; ++c) n += cells[c] == cells[c];
        for (int64_t k = 0; k < K; ++k) n += codes[k] >= 0;
      }
      count += n;
    }
    args.counts[block] = count;
  }
  return bad;
}

double ordered_sum(const double* sums, int64_t n) {
  double total = 0.0;
  for (int64_t j = 0; j < n; ++j) total += sums[j];
  return total;
}

// Convert a row of the prediction to the type of the accumulation, and its gradient back.
template <class T>
inline const T* load_row(const T* in, T*, int64_t) {
  return in;
}
inline const float* load_row(const Bfloat16* __restrict in, float* __restrict buffer, int64_t n) {
  for (int64_t j = 0; j < n; ++j) buffer[j] = widen(in[j]);
  return buffer;
}
template <class T>
inline T* grad_row(T* out, T*) {
  return out;
}
inline float* grad_row(Bfloat16*, float* buffer) { return buffer; }
template <class T>
inline void store_row(const T*, T*, int64_t) {}
inline void store_row(const float* __restrict buffer, Bfloat16* __restrict out, int64_t n) {
  for (int64_t j = 0; j < n; ++j) narrow(buffer[j], out[j]);
}

template <class T>
struct LossRow {
  const int32_t* codes;  // [K]
  const int32_t* state;  // [J]
  const T* factors;      // [J] of each table column's gradient, if columns are weighted
  double* sums;          // [J] the losses so far of each table column, not yet weighted
};

// A column's weight is the same in all rows: losses are weighted once per block, and gradients by folding the weight
// into their factor. Columns of weight 0 are left out, as clean columns are.
template <class T>
inline void gradient_factors(const LossArgs& args, T* factors) {
  const int64_t C = args.batch.columns.continuous, J = C + args.batch.columns.categorical;
  const T* weights = static_cast<const T*>(args.column_weight);
  for (int64_t j = 0; j < J; ++j) factors[j] = static_cast<T>((j < C ? 2.0 : 1.0) * args.scale * weights[j]);
}

template <bool kWeighted, class T>
inline void some_continuous_losses(int64_t begin, int64_t end, const T* __restrict factors, T twice, T mean_weight,
                                   T weight, const int32_t* __restrict state, const T* __restrict x0,
                                   const T* __restrict value, const T* __restrict p, const T* __restrict mean,
                                   T* __restrict losses, T* __restrict grad, T* __restrict mean_grad) {
  for (int64_t c = begin; c < end; ++c) {
    const T factor = kWeighted ? factors[c] : twice;
    const bool active = (x0[c] == x0[c]) & (state[c] != kClean) & (!kWeighted || factor != T(0));
    const T w = state[c] == kNoisy ? weight : T(1);
    T loss, g, mean_g;
    score_loss(p[c] - x0[c], mean[c] - value[c], w, mean_weight, factor, loss, g, mean_g);
    losses[c] = active ? loss : T(0);
    grad[c] = active ? g : T(0);
    mean_grad[c] = active ? mean_g : T(0);
  }
}

// `losses` holds the losses of one row before they are added to the sums, since `cover` visits some columns twice.
template <bool kWeighted, class T>
inline void continuous_losses(const LossArgs& args, const LossRow<T>& row, const T* x0, const T* value, const T* p,
                              T weight, T* losses, T* grad) {
  const int64_t C = args.batch.columns.continuous, D = args.batch.columns.width;
  const T mean_weight = static_cast<T>(args.mean_weight), twice = static_cast<T>(2.0 * args.scale);
  const T* factors = row.factors;
  const int32_t* state = row.state;
  cover<T>(C, [=](int64_t begin, int64_t end) {
    some_continuous_losses<kWeighted>(begin, end, factors, twice, mean_weight, weight, state, x0, value, p, p + D,
                                      losses, grad, grad + D);
  });
  double* __restrict sums = row.sums;
  for (int64_t c = 0; c < C; ++c) sums[c] += static_cast<double>(losses[c]);
}

template <bool kWeighted, class T>
inline void some_pair_losses(int64_t begin, int64_t end, const T* __restrict factors, T scale,
                             const int32_t* __restrict codes, const int32_t* __restrict state,
                             const T* __restrict logits, T* __restrict losses, T* __restrict grad) {
  for (int64_t k = begin; k < end; ++k) {
    const T factor = kWeighted ? factors[k] : scale;
    const bool active = (codes[k] >= 0) & (state[k] != kClean) & (!kWeighted || factor != T(0));
    T loss, g;
    pair_loss(logits[2 * k + 1] - logits[2 * k], codes[k] == 1, factor, loss, g);
    losses[k] = active ? loss : T(0);
    g = active ? g : T(0);
    grad[2 * k] = T(0) - g;
    grad[2 * k + 1] = g;
  }
}

// `losses` is as in `continuous_losses`.
template <bool kWeighted, class T>
inline void pair_losses(const LossArgs& args, const LossRow<T>& row, const Run& run, const T* logits, T* losses,
                        T* grad) {
  const int64_t first = args.batch.columns.continuous + run.first;
  const T scale = static_cast<T>(args.scale);
  const T* factors = kWeighted ? row.factors + first : nullptr;
  const int32_t *codes = row.codes + run.first, *state = row.state + first;
  cover<T>(run.groups, [=](int64_t begin, int64_t end) {
    some_pair_losses<kWeighted>(begin, end, factors, scale, codes, state, logits, losses, grad);
  });
  double* __restrict sums = row.sums + first;
  for (int64_t k = 0; k < run.groups; ++k) sums[k] += static_cast<double>(losses[k]);
}

template <bool kWeighted, class T>
inline void group_losses(const LossArgs& args, const LossRow<T>& row, const Run& run, const T* __restrict logits,
                         T* __restrict exps, T* __restrict norms, T* __restrict grad) {
  const T scale = static_cast<T>(args.scale);
  const T* __restrict factors = kWeighted ? row.factors + args.batch.columns.continuous + run.first : nullptr;
  const int32_t* __restrict codes = row.codes + run.first;
  const int32_t* __restrict state = row.state + args.batch.columns.continuous + run.first;
  double* __restrict sums = row.sums + args.batch.columns.continuous + run.first;
  exponentials(run, logits, exps, norms);
  for (int64_t k = 0; k < run.groups; ++k) {
    const int64_t at = k * run.size;
    const T factor = kWeighted ? factors[k] : scale;
    if (codes[k] < 0 || state[k] == kClean || (kWeighted && factor == T(0))) {
      for (int64_t j = 0; j < run.size; ++j) grad[at + j] = T(0);
      norms[k] = T(1);
      continue;
    }
    const T inverse = factor / norms[k];
    for (int64_t j = 0; j < run.size; ++j) grad[at + j] = exps[at + j] * inverse;
    grad[at + codes[k]] -= factor;
    T largest = logits[at];
    for (int64_t j = 1; j < run.size; ++j) largest = logits[at + j] > largest ? logits[at + j] : largest;
    sums[k] += static_cast<double>(largest - logits[at + codes[k]]);
  }
  for (int64_t k = 0; k < run.groups; ++k) sums[k] += static_cast<double>(log_sum(norms[k]));
}

template <class T>
struct LossMemory {
  double* sums;            // [J]
  int32_t *codes, *state;  // [K], [J]
  T *exps, *norms;         // [D], [K]
  T *predicted, *buffer;   // [D + C]
  T* factors;              // [J]

  LossMemory(const LossArgs& args, Scratch& scratch) {
    const Columns& columns = args.batch.columns;
    const int64_t C = columns.continuous, K = columns.categorical, D = columns.width;
    sums = scratch.take<double>(C + K);
    codes = scratch.take<int32_t>(K);
    state = scratch.take<int32_t>(C + K);
    exps = scratch.take<T>(D);
    norms = scratch.take<T>(K);
    predicted = scratch.take<T>(D + C);
    buffer = scratch.take<T>(D + C);
    factors = scratch.take<T>(C + K);
  }
};

template <bool kWeighted, class T, class P>
int weighted_loss_blocks(const LossArgs& args, int64_t begin, int64_t end, char* memory) {
  const BatchArgs& batch = args.batch;
  const Columns& columns = batch.columns;
  const int64_t C = columns.continuous, K = columns.categorical, D = columns.width;
  Scratch scratch(memory);
  const LossMemory<T> pieces(args, scratch);
  double* sums = pieces.sums;
  int32_t* codes = pieces.codes;
  int32_t* __restrict state = pieces.state;
  T *exps = pieces.exps, *norms = pieces.norms, *predicted = pieces.predicted, *buffer = pieces.buffer;
  if (kWeighted) gradient_factors<T>(args, pieces.factors);
  const LossRow<T> row{codes, state, pieces.factors, sums};
  int bad = 0;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * kLossBlock;
    const int64_t last = first + kLossBlock < batch.num_rows ? first + kLossBlock : batch.num_rows;
    for (int64_t j = 0; j < C + K; ++j) sums[j] = 0.0;
    for (int64_t i = first; i < last; ++i) {
      prefetch_row<T>(batch, i + kAhead, true);
      const int64_t r = batch.rows[i];
      if (load_codes(columns, batch.codes + r * K, codes)) {
        bad = 1;
        continue;
      }
      for (int64_t j = 0; j < C + K; ++j) state[j] = batch.states[i * (C + K) + j];
      const T* p = load_row(static_cast<const P*>(args.prediction) + i * (D + C), predicted, D + C);
      P* out = static_cast<P*>(args.grad) + i * (D + C);
      T* grad = grad_row(out, buffer);
      continuous_losses<kWeighted>(args, row, static_cast<const T*>(batch.continuous) + r * C,
                                   static_cast<const T*>(batch.values) + r * C, p,
                                   static_cast<const T*>(args.weight)[i], exps, grad);
      for (int64_t g = 0; g < columns.num_runs; ++g) {
        const Run run = columns.runs[g];
        if (run.size == 2) {
          pair_losses<kWeighted>(args, row, run, p + run.column, norms, grad + run.column);
        } else {
          group_losses<kWeighted>(args, row, run, p + run.column, exps, norms, grad + run.column);
        }
      }
      store_row(grad, out, D + C);
    }
    if (kWeighted) {
      const T* weights = static_cast<const T*>(args.column_weight);
      for (int64_t j = 0; j < C + K; ++j) sums[j] *= weights[j];
    }
    args.partials[block] = ordered_sum(sums, C + K);
  }
  return bad;
}

template <class T, class P>
int loss_blocks(const LossArgs& args, int64_t begin, int64_t end, char* memory) {
  return args.column_weight == nullptr ? weighted_loss_blocks<false, T, P>(args, begin, end, memory)
                                       : weighted_loss_blocks<true, T, P>(args, begin, end, memory);
}

template <class T>
struct NoiseLossMemory {
  NoiseTile tile;
  double* sums;            // [D]
  int32_t *active, *mask;  // [J], [D]
  T *predicted, *buffer;   // [D]

  NoiseLossMemory(const NoiseLossArgs& args, Scratch& scratch) : tile(noise_tile(args.batch.columns.width, scratch)) {
    const Columns& columns = args.batch.columns;
    sums = scratch.take<double>(columns.width);
    active = scratch.take<int32_t>(columns.continuous + columns.categorical);
    mask = scratch.take<int32_t>(columns.width);
    predicted = scratch.take<T>(columns.width);
    buffer = scratch.take<T>(columns.width);
  }
};

template <class T, class P>
int noise_loss_blocks(const NoiseLossArgs& args, int64_t begin, int64_t end, char* memory) {
  const BatchArgs& batch = args.batch;
  const Columns& columns = batch.columns;
  const int64_t C = columns.continuous, K = columns.categorical, D = columns.width;
  Scratch scratch(memory);
  const NoiseLossMemory<T> pieces(args, scratch);
  const NoiseTile& tile = pieces.tile;
  double* __restrict sums = pieces.sums;
  int32_t* __restrict active = pieces.active;
  int32_t* __restrict mask = pieces.mask;
  T *predicted = pieces.predicted, *buffer = pieces.buffer;
  const T twice = static_cast<T>(2.0 * args.scale);
  for (int64_t block = begin; block < end; ++block) {
    const int64_t start = block * kLossBlock;
    const int64_t stop = start + kLossBlock < batch.num_rows ? start + kLossBlock : batch.num_rows;
    for (int64_t d = 0; d < D; ++d) sums[d] = 0.0;
    for (int64_t first = start; first < stop; first += tile.rows) {
      const int64_t n = stop - first < tile.rows ? stop - first : tile.rows;
      fill_noise<true>(tile, batch.rows + first, n, batch.seed, batch.step);
      for (int64_t i = first; i < first + n; ++i) {
        prefetch_row<T>(batch, i + tile.rows, false);
        const T* __restrict cells = static_cast<const T*>(batch.continuous) + batch.rows[i] * C;
        const int16_t* __restrict codes = batch.codes + batch.rows[i] * K;
        const uint8_t* __restrict states = batch.states + i * (C + K);
        for (int64_t c = 0; c < C; ++c) active[c] = (cells[c] == cells[c]) & (states[c] == kNoisy);
        for (int64_t k = 0; k < K; ++k) active[C + k] = (codes[k] >= 0) & (states[C + k] == kNoisy);
        spread(columns, active, mask);
        const T* __restrict p = load_row(static_cast<const P*>(args.prediction) + i * D, predicted, D);
        P* out = static_cast<P*>(args.grad) + i * D;
        T* __restrict grad = grad_row(out, buffer);
        const float* __restrict eps = tile.values + (i - first) * tile.stride;
        for (int64_t d = 0; d < D; ++d) {
          T loss, g;
          missdiff::noise_loss(mask[d] != 0, p[d], static_cast<T>(eps[d]), twice, loss, g);
          sums[d] += static_cast<double>(loss);
          grad[d] = g;
        }
        store_row(grad, out, D);
      }
    }
    args.partials[block] = ordered_sum(sums, D);
  }
  return 0;
}

}  // namespace

namespace MISSDIFF_ISA {

size_t count_bytes(const CountArgs&) { return 0; }

int count(const CountArgs& args, int64_t begin, int64_t end, char*) {
  return args.batch.type == Type::kDouble ? count_blocks<double>(args, begin, end)
                                          : count_blocks<float>(args, begin, end);
}

size_t loss_bytes(const LossArgs& args) {
  return args.batch.type == Type::kDouble ? bytes_of<LossMemory<double>>(args) : bytes_of<LossMemory<float>>(args);
}

int loss(const LossArgs& args, int64_t begin, int64_t end, char* scratch) {
  if (args.batch.type == Type::kDouble) return loss_blocks<double, double>(args, begin, end, scratch);
  return args.prediction_type == Type::kBfloat16 ? loss_blocks<float, Bfloat16>(args, begin, end, scratch)
                                                 : loss_blocks<float, float>(args, begin, end, scratch);
}

size_t noise_loss_bytes(const NoiseLossArgs& args) {
  return args.batch.type == Type::kDouble ? bytes_of<NoiseLossMemory<double>>(args)
                                          : bytes_of<NoiseLossMemory<float>>(args);
}

int noise_loss(const NoiseLossArgs& args, int64_t begin, int64_t end, char* scratch) {
  if (args.batch.type == Type::kDouble) return noise_loss_blocks<double, double>(args, begin, end, scratch);
  return args.prediction_type == Type::kBfloat16 ? noise_loss_blocks<float, Bfloat16>(args, begin, end, scratch)
                                                 : noise_loss_blocks<float, float>(args, begin, end, scratch);
}

}  // namespace MISSDIFF_ISA
}  // namespace missdiff::cpu
