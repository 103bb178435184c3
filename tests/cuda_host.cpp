// Runs the CUDA kernels' bodies on the host, for tests/test_cuda_host.py: every function below makes a kernel's
// arguments as the op's glue does, and returns 0, or 1 if the kernel wrote past its shared memory.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../csrc/cuda/kernels/codec.h"
#include "../csrc/cuda/kernels/loss.h"
#include "../csrc/cuda/kernels/step.h"

using namespace missdiff;
using namespace missdiff::cuda;

namespace {

// How to run: `table` is 0 for float, 1 for double; `cell` 0 for the table's type, 1 for bfloat16.
struct Run {
  int32_t table, cell, staged, fill;
};

struct BatchPointers {
  int64_t num_continuous, num_categorical, width;
  const int64_t* offsets;
  const void *continuous, *codes, *values;
  const int64_t* rows;
  const uint8_t* states;
  int64_t num_rows, stored;

  Columns columns() const {
    return {static_cast<int>(num_continuous), static_cast<int>(num_categorical), static_cast<int>(width), offsets};
  }

  template <class T>
  Batch<T> batch() const {
    return {columns(),
            static_cast<const T*>(continuous),
            static_cast<const int16_t*>(codes),
            static_cast<const T*>(values),
            rows,
            states,
            num_rows,
            stored};
  }
};

template <class Kernel>
int run_kernel(const Run& run, const typename Kernel::Args& args, int64_t blocks) {
  constexpr size_t kGuard = 256;
  const size_t bytes = (static_cast<size_t>(Kernel::shared_bytes(args)) + 15) / 16 * 16;
  const std::unique_ptr<char, decltype(&std::free)> memory(static_cast<char*>(std::aligned_alloc(16, bytes + kGuard)),
                                                           &std::free);
  char* guard = memory.get() + Kernel::shared_bytes(args);
  std::memset(guard, 0x5A, kGuard);
  run_on_host<Kernel>(args, blocks, memory.get(), run.fill);
  for (size_t i = 0; i < kGuard; ++i) {
    if (guard[i] != 0x5A) return 1;
  }
  return 0;
}

// The tile that the glue takes, or rows worked on where they are.
Tile tile_for(const Run& run, Tile tile) { return run.staged != 0 ? tile : Tile{kLeastRows, false}; }

template <class T>
struct Is {
  using Type = T;
};

template <class Function>
int with_table(const Run& run, Function function) {
  return run.table == 0 ? function(Is<float>()) : function(Is<double>());
}

template <class T, class Function>
int with_cell(const Run& run, Function function) {
  return run.cell == 0 ? function(Is<T>()) : function(Is<Bfloat16>());
}

// Predictions of a double table are double.
template <class Function>
int with_prediction(const Run& run, Function function) {
  if (run.table != 0) return function(Is<double>(), Is<double>());
  return with_cell<float>(run, [&](auto cell) { return function(Is<float>(), cell); });
}

template <bool kNormal>
int noise(const Run& run, const int64_t* rows, int64_t num_rows, int64_t columns, const int64_t* key, float* out) {
  const Tile tile = tile_for(run, make_tile(columns * static_cast<int64_t>(sizeof(float))));
  const int width = static_cast<int>(columns);
  return with_staged(tile, [&](auto staged) {
    return run_kernel<Random<kNormal, staged>>(run, {rows, key, num_rows, width, Divider((columns + 3) / 4), tile, out},
                                               num_tiles(tile, num_rows));
  });
}

template <class T>
int total(const Run& run, const std::vector<double>& partials, const int64_t* count, void* loss) {
  return run_kernel<Total<T>>(
      run, {partials.data(), static_cast<int64_t>(partials.size()), count, static_cast<T*>(loss)}, 1);
}

}  // namespace

extern "C" {

void host_widen(const uint16_t* bits, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = widen(Bfloat16{bits[i]});
}

void host_narrow(const float* in, int64_t n, uint16_t* bits) {
  for (int64_t i = 0; i < n; ++i) {
    Bfloat16 narrowed;
    narrow(in[i], narrowed);
    bits[i] = narrowed.bits;
  }
}

void host_quotients(int64_t divisor, const int32_t* in, int64_t n, int32_t* out) {
  const Divider by(divisor);
  for (int64_t i = 0; i < n; ++i) out[i] = quotient(in[i], by);
}

// How many of all quotients of logarithms, and of all reciprocals of numbers from 1 to 2, are wrong, where the
// approximate reciprocal is off by so many units in the last place.
int64_t host_wrong_quotients(int64_t units) {
  int64_t wrong = 0;
  const auto check = [&](float x, float divisor) {
    const float nearest = static_cast<float>(1.0 / static_cast<double>(divisor));
    const float reciprocal = bits_float(float_bits(nearest) + static_cast<int32_t>(units));
    wrong += float_bits(divide_from(x, divisor, reciprocal)) != float_bits(x / divisor);
  };
  for (int32_t mantissa = 0; mantissa < 1 << 23; ++mantissa) {
    const float f = bits_float(mantissa + 0x3F3504F3) - 1.0f;
    check(f, 2.0f + f);
    check(1.0f, bits_float(mantissa + 0x3F800000));
  }
  check(1.0f, 2.0f);
  return wrong;
}

// The same of all radii, and how many reciprocal roots lie within the bound of `rsqrt.approx`.
void host_wrong_radii(int64_t units, int64_t* wrong, int64_t* tried) {
  *wrong = *tried = 0;
  for (int64_t upper = 0; upper < 1 << 24; upper += 2) {
    const float x = squared_radius(static_cast<uint32_t>(upper << 8));
    const double exact = 1.0 / std::sqrt(static_cast<double>(x));
    const float reciprocal = bits_float(float_bits(static_cast<float>(exact)) + static_cast<int32_t>(units));
    if (std::abs(reciprocal - exact) > std::exp2(-22.9) * exact) continue;
    ++*tried;
    *wrong += float_bits(radius_from(x, reciprocal)) != float_bits(square_root(x));
  }
}

// How many of the upper 24 bits of words give another squared radius, cosine or sine than philox.h.
int64_t host_wrong_words() {
  int64_t wrong = 0;
  for (int64_t upper = 0; upper < 1 << 24; ++upper) {
    const uint32_t word = static_cast<uint32_t>(upper << 8 | (upper * 7 & 0xFF));
    float cosine, sine, wanted_cosine, wanted_sine;
    cos_sin_of(word, cosine, sine);
    cos_sin_turn(odd_numerator(word), wanted_cosine, wanted_sine);
    const float wanted = -2.0f * log_positive(static_cast<float>(odd_numerator(word)), 24);
    wrong += float_bits(squared_radius(word)) != float_bits(wanted) ||
             float_bits(cosine) != float_bits(wanted_cosine) || float_bits(sine) != float_bits(wanted_sine);
  }
  return wrong;
}

int host_uniform(const Run* run, const int64_t* rows, int64_t num_rows, int64_t columns, const int64_t* key,
                 float* out) {
  return noise<false>(*run, rows, num_rows, columns, key, out);
}

int host_normal(const Run* run, const int64_t* rows, int64_t num_rows, int64_t columns, const int64_t* key,
                float* out) {
  return noise<true>(*run, rows, num_rows, columns, key, out);
}

int host_perturb(const Run* run, const BatchPointers* batch, const void* alpha, const void* sigma, const int64_t* key,
                 double low, double high, void* out) {
  return with_table(*run, [&](auto table) {
    using T = typename decltype(table)::Type;
    const Tile tile = tile_for(*run, make_tile(batch->width * static_cast<int64_t>(sizeof(T))));
    return with_staged(tile, [&](auto staged) {
      return run_kernel<Perturb<T, staged>>(
          *run,
          {batch->batch<T>(), static_cast<const T*>(alpha), static_cast<const T*>(sigma), key, static_cast<T>(low),
           static_cast<T>(high), Divider((batch->width + 3) / 4), tile, static_cast<T*>(out)},
          num_tiles(tile, batch->num_rows));
    });
  });
}

int host_masked_loss(const Run* run, const BatchPointers* batch, const void* prediction, const void* weight,
                     const void* column_weight, double mean_weight, void* loss, void* grad) {
  return with_prediction(*run, [&](auto table, auto cell) {
    using T = typename decltype(table)::Type;
    using P = typename decltype(cell)::Type;
    const Batch<T> drawn = batch->batch<T>();
    const Tile tile = tile_for(*run, Loss<T, P, true>::tile_of(drawn.columns));
    const int64_t tiles = num_tiles(tile, batch->num_rows);
    std::vector<double> partials(static_cast<size_t>(tiles));
    int64_t count = 0;
    int bad = run_kernel<Count<T, false>>(*run, {drawn, &count}, Count<T, false>::num_blocks(batch->num_rows));
    bad |= with_staged(tile, [&](auto staged) {
      return run_kernel<Loss<T, P, staged>>(*run,
                                            {drawn, static_cast<const P*>(prediction), static_cast<const T*>(weight),
                                             static_cast<const T*>(column_weight), static_cast<T>(mean_weight), &count,
                                             tile, static_cast<P*>(grad), partials.data()},
                                            tiles);
    });
    return bad | total<T>(*run, partials, &count, loss);
  });
}

int host_masked_noise_loss(const Run* run, const BatchPointers* batch, const void* prediction, const int64_t* key,
                           void* loss, void* grad) {
  return with_prediction(*run, [&](auto table, auto cell) {
    using T = typename decltype(table)::Type;
    using P = typename decltype(cell)::Type;
    const Batch<T> drawn = batch->batch<T>();
    const Tile tile = tile_for(*run, NoiseLoss<T, P, true>::tile_of(drawn.columns));
    const int64_t tiles = num_tiles(tile, batch->num_rows);
    std::vector<double> partials(static_cast<size_t>(tiles));
    int64_t count = 0;
    int bad = run_kernel<Count<T, true>>(*run, {drawn, &count}, Count<T, true>::num_blocks(batch->num_rows));
    bad |= with_staged(tile, [&](auto staged) {
      return run_kernel<NoiseLoss<T, P, staged>>(
          *run, {drawn, static_cast<const P*>(prediction), key, &count, tile, static_cast<P*>(grad), partials.data()},
          tiles);
    });
    return bad | total<T>(*run, partials, &count, loss);
  });
}

int host_step(const Run* run, const BatchPointers* batch, const void* x, const void* prediction,
              int64_t prediction_width, const void* previous, const void* coefficients, const int64_t* key,
              int32_t softmax, void* next, void* p) {
  return with_table(*run, [&](auto table) {
    using T = typename decltype(table)::Type;
    return with_cell<T>(*run, [&](auto cell) {
      using P = typename decltype(cell)::Type;
      const Tile tile = tile_for(*run, Step<T, P, true>::tile_of(batch->columns()));
      return with_staged(tile, [&](auto staged) {
        return run_kernel<Step<T, P, staged>>(
            *run,
            {batch->columns(), static_cast<const T*>(x), static_cast<const P*>(prediction), prediction_width,
             static_cast<const T*>(previous), batch->states, static_cast<const T*>(coefficients), batch->rows, key,
             softmax != 0, batch->num_rows, tile, static_cast<T*>(next), static_cast<T*>(p)},
            num_tiles(tile, batch->num_rows));
      });
    });
  });
}

int host_encode(const Run* run, int64_t whole, const void* cells, int64_t num_cells, const void* keys, int64_t num_keys,
                const double* ends, const float* boundaries, int64_t count, const double* share, float* scores) {
  const double least = 0.5 / static_cast<double>(count);
  const auto encode = [&](auto cell) {
    using T = typename decltype(cell)::Type;
    return run_kernel<Encode<T>>(*run,
                                 {static_cast<const T*>(cells), static_cast<const T*>(keys), ends, boundaries, share,
                                  least, 1.0 - least, num_cells, static_cast<int32_t>(num_keys), scores},
                                 Encode<T>::num_blocks(num_cells));
  };
  return whole != 0 ? encode(Is<int64_t>()) : with_table(*run, encode);
}

int host_decode(const Run* run, const BatchPointers* batch, const void* x, const void* boundaries,
                int64_t num_boundaries, const int64_t* starts, int32_t* places, int16_t* codes) {
  return with_table(*run, [&](auto table) {
    using T = typename decltype(table)::Type;
    const Tile tile = tile_for(*run, Decode<T, true>::tile_of(batch->columns()));
    return with_staged(tile, [&](auto staged) {
      return run_kernel<Decode<T, staged>>(
          *run,
          {batch->columns(), static_cast<const T*>(x), static_cast<const T*>(boundaries), num_boundaries, starts,
           batch->num_rows, tile, places, codes},
          num_tiles(tile, batch->num_rows));
    });
  });
}
}
