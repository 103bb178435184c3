// Warp-level code that also runs on the host. A PerLane holds one value per lane, and MISSDIFF_LANES loops over lanes:
// on the device one value and one iteration per thread, on the host 32 of both.
#pragma once

#include "../../bfloat16.h"
#include "grid.h"

namespace missdiff::cuda {

constexpr int kLanes = 32;

struct alignas(16) Four {
  float v[4];
};

#ifdef __CUDA_ARCH__

template <class T>
struct PerLane {
  T value;
  MISSDIFF_MEMBER T& operator[](int) { return value; }
  MISSDIFF_MEMBER const T& operator[](int) const { return value; }
};

#define MISSDIFF_LANES(lane) for (int lane = static_cast<int>(threadIdx.x) % kLanes, turn = 1; turn; turn = 0)

#else

template <class T>
struct PerLane {
  T value[kLanes];
  MISSDIFF_MEMBER T& operator[](int lane) { return value[lane]; }
  MISSDIFF_MEMBER const T& operator[](int lane) const { return value[lane]; }
};

#define MISSDIFF_LANES(lane) for (int lane = 0; lane < kLanes; ++lane)

#endif

// Makes the warp's writes to memory visible to all its lanes.
MISSDIFF_INLINE void warp_barrier() {
#ifdef __CUDA_ARCH__
  __syncwarp();
#endif
}

// The same for all threads of a block.
MISSDIFF_INLINE void block_barrier() {
#ifdef __CUDA_ARCH__
  __syncthreads();
#endif
}

// Starts an asynchronous copy from global to shared memory by all threads of a block. Size and addresses are multiples
// of 16 bytes.
MISSDIFF_INLINE void copy_ahead(const char* from, char* to, int bytes, int threads) {
#ifdef __CUDA_ARCH__
  const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(to));
  for (int i = static_cast<int>(threadIdx.x) * 16; i < bytes; i += threads * 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target + i), "l"(from + i) : "memory");
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  static_cast<void>(threads);
  __builtin_memcpy(to, from, static_cast<size_t>(bytes));
#endif
}

// Waits until at most kPending of this thread's copies are unfinished.
template <int kPending>
MISSDIFF_INLINE void await_copies() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// A lane's part of 16 rows by 16 columns, in the layout of a matrix product's result: lane 4 g + t holds columns 8 half
// + 2 t + (i & 1) of rows g + 8 (i >> 1), for halves 0 and 1 and i from 0 to 3.
struct Panel {
  float v[2][4];
};
constexpr int kPanel = 16;

MISSDIFF_INLINE int panel_row(int lane, int i) { return lane / 4 + 8 * (i / 2); }
MISSDIFF_INLINE int panel_column(int lane, int half, int i) { return 8 * half + 2 * (lane % 4) + i % 2; }

// Numbers of a lane's upper and lower row. sum_rows adds them over the four lanes that share rows.
struct RowPair {
  float upper, lower;
};

MISSDIFF_INLINE void sum_rows(PerLane<RowPair>& sums) {
#ifdef __CUDA_ARCH__
  for (int apart = 1; apart <= 2; apart *= 2) {
    sums.value.upper += __shfl_xor_sync(0xFFFFFFFFu, sums.value.upper, apart);
    sums.value.lower += __shfl_xor_sync(0xFFFFFFFFu, sums.value.lower, apart);
  }
#else
  for (int first = 0; first < kLanes; first += 4) {
    RowPair total{0.0f, 0.0f};
    for (int t = 0; t < 4; ++t) {
      total.upper += sums[first + t].upper;
      total.lower += sums[first + t].lower;
    }
    for (int t = 0; t < 4; ++t) sums[first + t] = total;
  }
#endif
}

#ifndef __CUDA_ARCH__

// A panel and a tile in the lanes' order, for the host's version of the matrix instructions below.
struct Factors {
  float left[kLanes][2][4], right[kLanes][8];
};

// Tensor cores round sums toward zero, after every eight products or more.
inline float toward_zero(double x) {
  const float nearest = static_cast<float>(x);
  const bool away = __builtin_isfinite(nearest) && __builtin_fabs(static_cast<double>(nearest)) > __builtin_fabs(x);
  return away ? __builtin_nextafterf(nearest, 0.0f) : nearest;
}

// Adds the products of eight inputs, the panel's first or second half, to sums.
inline void multiply_eight(PerLane<Panel>& sums, const Factors& factors, int half) {
  float a[kPanel][8], b[8][kPanel];
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      a[panel_row(lane, i)][2 * (lane % 4) + i % 2] = factors.left[lane][half][i];
      b[2 * (lane % 4) + i % 2][8 * (i / 2) + lane / 4] = factors.right[lane][4 * (i / 2) + 2 * half + i % 2];
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int out = 0; out < 2; ++out) {
      for (int i = 0; i < 4; ++i) {
        double sum = sums[lane].v[out][i];
        for (int k = 0; k < 8; ++k) {
          sum += static_cast<double>(a[panel_row(lane, i)][k]) * b[k][panel_column(lane, out, i)];
        }
        sums[lane].v[out][i] = toward_zero(sum);
      }
    }
  }
}

#endif

// Products of a panel of rows and a tile of weights, 16 inputs by 16 outputs. Lane 4 g + t holds the tile's weights of
// inputs 8 half + 2 t + i and outputs 8 tile + g, in the order (tile, half, i).
//
// bfloat16, with sums in float32.
struct InBfloat16 {
  static constexpr int kTileBytes = 512;
  struct alignas(16) Left {
    uint32_t words[4];
  };
  struct alignas(16) Right {
    uint32_t words[4];
  };

  MISSDIFF_INLINE Left left(const Panel& panel) {
    Left result;
    MISSDIFF_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      MISSDIFF_UNROLL(2)
      for (int row = 0; row < 2; ++row) {
        result.words[2 * half + row] = pair(panel.v[half][2 * row], panel.v[half][2 * row + 1]);
      }
    }
    return result;
  }

  MISSDIFF_INLINE Right right(const char* tile, int lane) { return load_as<Right>(tile + 16 * lane); }

  MISSDIFF_INLINE void multiply(PerLane<Panel>& sums, const PerLane<Left>& left, const PerLane<Right>& right) {
#ifdef __CUDA_ARCH__
    const uint32_t* a = left.value.words;
    const uint32_t* b = right.value.words;
    MISSDIFF_UNROLL(2)
    for (int tile = 0; tile < 2; ++tile) {
      float* c = sums.value.v[tile];
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[2 * tile]), "r"(b[2 * tile + 1]));
    }
#else
    Factors factors;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int e = 0; e < 8; ++e) {
        factors.left[lane][e / 4][e % 4] = unpack(left[lane].words[e / 2], e % 2);
        factors.right[lane][e] = unpack(right[lane].words[e / 2], e % 2);
      }
    }
    for (int half = 0; half < 2; ++half) multiply_eight(sums, factors, half);
#endif
  }

 private:
  MISSDIFF_INLINE uint32_t pair(float first, float second) {
#ifdef __CUDA_ARCH__
    const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
    uint32_t word;
    __builtin_memcpy(&word, &both, sizeof word);
    return word;
#else
    Bfloat16 low, high;
    narrow(first, low);
    narrow(second, high);
    return low.bits | static_cast<uint32_t>(high.bits) << 16;
#endif
  }
  MISSDIFF_INLINE float unpack(uint32_t word, int i) { return widen(Bfloat16{static_cast<uint16_t>(word >> 16 * i)}); }
};

// float32: each factor is split into two TF32 numbers, and the product of the two low parts is left out. The products
// of eight inputs start from zero and are added to the sums apart, because tensor cores would round the sums toward
// zero.
struct InFloat32 {
  static constexpr int kTileBytes = 1024;
  struct alignas(16) Left {
    float v[2][4];
  };
  struct Right {
    float v[8];

    // The weights of two inputs, in halves of a tile.
    MISSDIFF_MEMBER void parts(int tile, int half, float (&high)[2], float (&low)[2]) const {
      MISSDIFF_UNROLL(2)
      for (int i = 0; i < 2; ++i) split(v[4 * tile + 2 * half + i], high[i], low[i]);
    }
  };

  MISSDIFF_INLINE Right right(const char* tile, int lane) {
    const Four first = load_as<Four>(tile + 16 * lane), second = load_as<Four>(tile + 512 + 16 * lane);
    return {{first.v[0], first.v[1], first.v[2], first.v[3], second.v[0], second.v[1], second.v[2], second.v[3]}};
  }

  MISSDIFF_INLINE Left left(const Panel& panel) {
    Left result;
    __builtin_memcpy(&result, &panel, sizeof result);
    return result;
  }

  // `Weights` is `Right`, of this struct or of one derived from it.
  template <class Weights>
  MISSDIFF_INLINE void multiply(PerLane<Panel>& sums, const PerLane<Left>& left, const PerLane<Weights>& right) {
#ifdef __CUDA_ARCH__
    MISSDIFF_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      float high[4], low[4];
      MISSDIFF_UNROLL(4)
      for (int i = 0; i < 4; ++i) split(left.value.v[half][i], high[i], low[i]);
      MISSDIFF_UNROLL(2)
      for (int tile = 0; tile < 2; ++tile) {
        float b_high[2], b_low[2];
        right.value.parts(tile, half, b_high, b_low);
        float products[4] = {};
        multiply_half(products, low, b_high[0], b_high[1]);
        multiply_half(products, high, b_low[0], b_low[1]);
        multiply_half(products, high, b_high[0], b_high[1]);
        MISSDIFF_UNROLL(4)
        for (int i = 0; i < 4; ++i) sums.value.v[tile][i] += products[i];
      }
    }
#else
    Factors high, low;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int e = 0; e < 8; ++e) {
        split(left[lane].v[e / 4][e % 4], high.left[lane][e / 4][e % 4], low.left[lane][e / 4][e % 4]);
      }
      for (int part = 0; part < 4; ++part) {
        float b_high[2], b_low[2];
        right[lane].parts(part / 2, part % 2, b_high, b_low);
        for (int i = 0; i < 2; ++i) {
          high.right[lane][2 * part + i] = b_high[i];
          low.right[lane][2 * part + i] = b_low[i];
        }
      }
    }
    Factors low_high = high, high_low = high;
    __builtin_memcpy(low_high.left, low.left, sizeof low.left);
    __builtin_memcpy(high_low.right, low.right, sizeof low.right);
    for (int half = 0; half < 2; ++half) {
      PerLane<Panel> products{};
      multiply_eight(products, low_high, half);
      multiply_eight(products, high_low, half);
      multiply_eight(products, high, half);
      for (int lane = 0; lane < kLanes; ++lane) {
        for (int i = 0; i < 8; ++i) sums[lane].v[i / 4][i % 4] += products[lane].v[i / 4][i % 4];
      }
    }
#endif
  }

 private:
  // Rounds to TF32, 11 significant bits.
  MISSDIFF_INLINE float rounded(float x) {
#ifdef __CUDA_ARCH__
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
#else
    return x == x ? bits_float(static_cast<int32_t>((static_cast<uint32_t>(float_bits(x)) + 0x1000u) & 0xFFFFE000u))
                  : x;
#endif
  }

#ifdef __CUDA_ARCH__
  // Eight inputs at a time. The instruction expects inputs t and t + 4 where the lanes hold 2 t and 2 t + 1. Both
  // factors permute the inputs alike, which does not change their sum's terms.
  static __device__ __forceinline__ void multiply_half(float* c, const float* a, float b0, float b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[1])),
          "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
  }
#endif

  MISSDIFF_INLINE void split(float x, float& high, float& low) {
    high = rounded(x);
    low = rounded(x - high);
  }
};

// The same with weights that were split when they were packed: twice the bytes, but a narrow network's inner loop has
// two fifths fewer instructions.
struct InSplitFloat32 : InFloat32 {
  static constexpr int kTileBytes = 2048;
  struct Right {
    Four of[2][2];  // [tile][half]: the high parts of both inputs, then the low ones

    MISSDIFF_MEMBER void parts(int tile, int half, float (&high)[2], float (&low)[2]) const {
      MISSDIFF_UNROLL(2)
      for (int i = 0; i < 2; ++i) {
        high[i] = of[tile][half].v[i];
        low[i] = of[tile][half].v[2 + i];
      }
    }
  };

  MISSDIFF_INLINE Right right(const char* tile, int lane) {
    Right result;
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) result.of[i / 2][i % 2] = load_as<Four>(tile + 512 * i + 16 * lane);
    return result;
  }
};

}  // namespace missdiff::cuda
