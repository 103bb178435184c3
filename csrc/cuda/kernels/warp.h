// Copies and matrix products of a warp.
#pragma once

#include "../../bfloat16.h"
#include "tf32.h"

namespace missdiff::cuda {

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
// + 2 t + (i & 1) of rows g + 8 (i >> 1), for halves 0 and 1 and i from 0 to 3: the sums of two products of eight
// outputs.
struct Panel {
  float v[2][4];
};
constexpr int kPanel = 16;

MISSDIFF_INLINE int panel_column(int lane, int half, int i) { return 8 * half + sum_output(lane, i); }

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

// Adds the products of eight inputs, the panel's first or second half, to sums.
inline void multiply_eight(PerLane<Panel>& sums, const Factors& factors, int half) {
  float a[kPanel][8], b[8][kPanel];
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      a[sum_row(lane, i)][2 * (lane % 4) + i % 2] = factors.left[lane][half][i];
      b[2 * (lane % 4) + i % 2][8 * (i / 2) + lane / 4] = factors.right[lane][4 * (i / 2) + 2 * half + i % 2];
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int out = 0; out < 2; ++out) {
      for (int i = 0; i < 4; ++i) {
        double sum = sums[lane].v[out][i];
        for (int k = 0; k < 8; ++k) {
          sum += static_cast<double>(a[sum_row(lane, i)][k]) * b[k][panel_column(lane, out, i)];
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

// float32, as `Tf32Thrice`.
struct InFloat32 {
  static constexpr int kTileBytes = 1024;
  struct alignas(16) Left {
    float v[2][4];
  };
  struct Right {
    float v[8];

    // The weights of two inputs, in halves of a tile.
    MISSDIFF_MEMBER void parts(int tile, int half, RightEight& high, RightEight& low) const {
      MISSDIFF_UNROLL(2)
      for (int i = 0; i < 2; ++i) split_tf32(v[4 * tile + 2 * half + i], high.v[i], low.v[i]);
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

  // `Weights` is `Right`, of this struct or of one derived from it. The instruction expects inputs t and t + 4 where
  // the lanes hold 2 t and 2 t + 1: both factors permute the inputs alike.
  template <class Weights>
  MISSDIFF_INLINE void multiply(PerLane<Panel>& sums, const PerLane<Left>& left, const PerLane<Weights>& right) {
    MISSDIFF_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      PerLane<LeftEight> left_high, left_low;
      MISSDIFF_LANES(lane) {
        MISSDIFF_UNROLL(4)
        for (int i = 0; i < 4; ++i) {
          const int place = i / 2 + 2 * (i % 2);
          split_tf32(left[lane].v[half][i], left_high[lane].v[place], left_low[lane].v[place]);
        }
      }
      MISSDIFF_UNROLL(2)
      for (int tile = 0; tile < 2; ++tile) {
        PerLane<RightEight> right_high, right_low;
        PerLane<SumsEight> own;
        MISSDIFF_LANES(lane) {
          right[lane].parts(tile, half, right_high[lane], right_low[lane]);
          __builtin_memcpy(&own[lane], sums[lane].v[tile], sizeof own[lane]);
        }
        multiply_split(own, left_high, left_low, right_high, right_low);
        MISSDIFF_LANES(lane) __builtin_memcpy(sums[lane].v[tile], &own[lane], sizeof own[lane]);
      }
    }
  }
};

// The same with weights that were split when they were packed: twice the bytes, but a narrow network's inner loop has
// two fifths fewer instructions.
struct InSplitFloat32 : InFloat32 {
  static constexpr int kTileBytes = 2048;
  struct Right {
    Four of[2][2];  // [tile][half]: the high parts of both inputs, then the low ones

    MISSDIFF_MEMBER void parts(int tile, int half, RightEight& high, RightEight& low) const {
      MISSDIFF_UNROLL(2)
      for (int i = 0; i < 2; ++i) {
        high.v[i] = of[tile][half].v[i];
        low.v[i] = of[tile][half].v[2 + i];
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
