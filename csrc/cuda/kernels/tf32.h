// Products of 16 rows, 8 inputs and 8 outputs on tensor cores, with factors in TF32 and sums in float32. Lane 4 g + t
// holds the left factor's inputs t and t + 4 of rows g and g + 8, the right factor's inputs t and t + 4 of output g,
// and the sums of outputs 2 t and 2 t + 1 in rows g and g + 8. Inputs may be permuted if both factors are.
#pragma once

#include "lanes.h"

namespace missdiff::cuda {

struct LeftEight {
  float v[4];  // (row, input): (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
};
struct RightEight {
  float v[2];  // input t, input t + 4
};
struct SumsEight {
  float v[4];  // (row, output): (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1)
};

MISSDIFF_INLINE int sum_row(int lane, int i) { return lane / 4 + 8 * (i / 2); }
MISSDIFF_INLINE int sum_output(int lane, int i) { return 2 * (lane % 4) + i % 2; }

// Rounds to TF32, 11 significant bits.
MISSDIFF_INLINE float round_tf32(float x) {
#ifdef __CUDA_ARCH__
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
#else
  return x == x ? bits_float(static_cast<int32_t>((static_cast<uint32_t>(float_bits(x)) + 0x1000u) & 0xFFFFE000u)) : x;
#endif
}

// The two TF32 numbers that come nearest to a float32.
MISSDIFF_INLINE void split_tf32(float x, float& high, float& low) {
  high = round_tf32(x);
  low = round_tf32(x - high);
}

#ifndef __CUDA_ARCH__
// Tensor cores round sums toward zero, after every eight products or more.
inline float toward_zero(double x) {
  const float nearest = static_cast<float>(x);
  const bool away = __builtin_isfinite(nearest) && __builtin_fabs(static_cast<double>(nearest)) > __builtin_fabs(x);
  return away ? __builtin_nextafterf(nearest, 0.0f) : nearest;
}
#endif

// Adds the product of TF32 numbers to the sums.
MISSDIFF_INLINE void multiply_tf32(PerLane<SumsEight>& sums, const PerLane<LeftEight>& left,
                                   const PerLane<RightEight>& right) {
#ifdef __CUDA_ARCH__
  float* c = sums.value.v;
  const float* a = left.value.v;
  const float* b = right.value.v;
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
        "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
#else
  float a[16][8], b[8][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) a[lane / 4 + 8 * (i % 2)][lane % 4 + 4 * (i / 2)] = left[lane].v[i];
    for (int i = 0; i < 2; ++i) b[lane % 4 + 4 * i][lane / 4] = right[lane].v[i];
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      double sum = sums[lane].v[i];
      for (int k = 0; k < 8; ++k) sum += static_cast<double>(a[sum_row(lane, i)][k]) * b[k][sum_output(lane, i)];
      sums[lane].v[i] = toward_zero(sum);
    }
  }
#endif
}

// Adds the product of factors that are split; that of the two low parts is left out. The products start from zero and
// are added to the sums apart, because tensor cores round sums toward zero.
MISSDIFF_INLINE void multiply_split(PerLane<SumsEight>& sums, const PerLane<LeftEight>& left_high,
                                    const PerLane<LeftEight>& left_low, const PerLane<RightEight>& right_high,
                                    const PerLane<RightEight>& right_low) {
  PerLane<SumsEight> products;
  MISSDIFF_LANES(lane) products[lane] = {};
  multiply_tf32(products, left_low, right_high);
  multiply_tf32(products, left_high, right_low);
  multiply_tf32(products, left_high, right_high);
  MISSDIFF_LANES(lane) {
    MISSDIFF_UNROLL(4)
    for (int i = 0; i < 4; ++i) sums[lane].v[i] += products[lane].v[i];
  }
}

// The arithmetic of a product: factors rounded to TF32.
struct Tf32Once {
  MISSDIFF_INLINE void multiply(PerLane<SumsEight>& sums, PerLane<LeftEight> left, PerLane<RightEight> right) {
    MISSDIFF_LANES(lane) {
      MISSDIFF_UNROLL(4)
      for (int i = 0; i < 4; ++i) left[lane].v[i] = round_tf32(left[lane].v[i]);
      MISSDIFF_UNROLL(2)
      for (int i = 0; i < 2; ++i) right[lane].v[i] = round_tf32(right[lane].v[i]);
    }
    multiply_tf32(sums, left, right);
  }
};

// Nearly that of float32: each factor is split into two TF32 numbers.
struct Tf32Thrice {
  MISSDIFF_INLINE void multiply(PerLane<SumsEight>& sums, const PerLane<LeftEight>& left,
                                const PerLane<RightEight>& right) {
    PerLane<LeftEight> left_high, left_low;
    PerLane<RightEight> right_high, right_low;
    MISSDIFF_LANES(lane) {
      MISSDIFF_UNROLL(4)
      for (int i = 0; i < 4; ++i) split_tf32(left[lane].v[i], left_high[lane].v[i], left_low[lane].v[i]);
      MISSDIFF_UNROLL(2)
      for (int i = 0; i < 2; ++i) split_tf32(right[lane].v[i], right_high[lane].v[i], right_low[lane].v[i]);
    }
    multiply_split(sums, left_high, left_low, right_high, right_low);
  }
};

}  // namespace missdiff::cuda
