// The default network where a row does not fit in a warp's registers. The warps of a block work on the same strips of
// 16 rows, each on its own columns of every layer, and exchange activations through shared memory. Weights come from
// the L2 cache, and a warp uses each tile for all strips: four strips halve the traffic of two.
#pragma once

#include "mlp.h"

namespace missdiff::cuda {

constexpr int kWideWarps = 8;

// Panels of the hidden layer that a warp computes at a time, so many that its registers hold the sums of 16 panels,
// those of its rows among them, or of 10 in float32, where a product takes more of them. It computes at least one: at
// the greatest width four strips are 16 panels of rows, and so 20.
MISSDIFF_INLINE constexpr int hidden_panels(int each, int strips, int left_bytes) {
  const int room = (left_bytes > 16 ? 10 : 16) / strips - each;
  return room < 1 ? 1 : room < each ? room : each;
}

// Shared memory of a block, beside the cells, for a width of so many panels: factors of `left_bytes` a lane, and sums.
MISSDIFF_INLINE constexpr int64_t wide_bytes(int64_t left_bytes, int panels, int strips) {
  return strips * (3 * panels * kLanes * left_bytes + kWideWarps * kPanel * static_cast<int64_t>(sizeof(float)));
}

#ifdef __CUDA_ARCH__
template <class T>
using PerWarp = PerLane<T>;
#else
template <class T>
struct PerWarp {
  T value[kWideWarps];
  MISSDIFF_MEMBER T& operator[](int warp) { return value[warp]; }
};
#endif

// A network whose width is rounded up to kEach panels for each warp, and kStrips strips of rows.
template <class Product, int kEach, int kStrips>
struct MlpWide {
  using Left = typename Product::Left;
  using Right = typename Product::Right;
  static constexpr int kPanels = kEach * kWideWarps, kPadded = kPanels * kPanel, kRows = kStrips * kPanel;
  static constexpr int kHidden = hidden_panels(kEach, kStrips, sizeof(Left));
  static_assert(2 * kEach % kHidden == 0, "a warp has its panels of the hidden layer in whole turns");

  // A warp's panels of each strip of the block's rows.
  template <int kColumns>
  struct PanelsOf {
    PerLane<Panel> of[kColumns][kStrips];
  };
  using Rows = PanelsOf<kEach>;

  // Shared memory: factors of products, and the warps' sums over their columns.
  struct Shared {
    Left normal[kPanels][kStrips][kLanes];
    Left wide[2 * kPanels][kStrips][kLanes];  // the hidden layer, or pieces of the inputs
    float sums[kWideWarps][kRows];
  };
  static_assert(sizeof(Shared) == wide_bytes(sizeof(Left), kPanels, kStrips), "plan_mlp needs its size");

  // Runs all steps of the rows from `first` on.
  MISSDIFF_INLINE void run_block(const MlpArgs& args, const Cells& cells, Shared& shared, int64_t first) {
    const int workers = kWideWarps * kLanes;
    MISSDIFF_WARPS(warp, kWideWarps) {
      MISSDIFF_LANES(lane) load_cells(args, cells, first, warp * kLanes + lane, workers);
    }
    block_barrier();
    const int passes = args.steps > 0 ? args.steps : 1;
    for (int t = 0; t < passes; ++t) {
      predict(args, cells, shared, first, t);
      if (args.steps == 0) break;
      block_barrier();
      MISSDIFF_WARPS(warp, kWideWarps) {
        MISSDIFF_LANES(lane) softmax_cells(args, cells, warp * kLanes + lane, workers);
      }
      block_barrier();
      MISSDIFF_WARPS(warp, kWideWarps) {
        MISSDIFF_LANES(lane) advance_cells(args, cells, first, t, warp * kLanes + lane, workers);
      }
      block_barrier();
    }
    if (args.steps > 0) {
      MISSDIFF_WARPS(warp, kWideWarps) {
        MISSDIFF_LANES(lane) store_cells(args, cells, first, warp * kLanes + lane, workers);
      }
    }
    block_barrier();  // before the memory is used for the next rows
  }

  MISSDIFF_INLINE void predict(const MlpArgs& args, const Cells& cells, Shared& shared, int64_t first, int t) {
    const int flags = panels_of(2 * (args.columns.continuous + args.columns.categorical));
    const int inputs = flags + panels_of(args.columns.width);
    const Scales scales = scales_at(args.sigmas[t]);
    const Vectors vectors = Vectors::of(args.vectors, kPadded, args.blocks);
    const char* tiles = args.tiles;
    PerWarp<Rows> h;
    MISSDIFF_WARPS(warp, kWideWarps) start(h[warp], vectors.inputs, warp * kEach);
    for (int begin = 0; begin < inputs; begin += 2 * kPanels) {
      const int n = inputs - begin < 2 * kPanels ? inputs - begin : 2 * kPanels;
      MISSDIFF_WARPS(warp, kWideWarps) {
        for (int item = warp; item < n * kStrips; item += kWideWarps) {
          const int k = item / kStrips, strip = item % kStrips, panel = begin + k;
          MISSDIFF_LANES(lane) {
            shared.wide[k][strip][lane] =
                Product::left(panel < flags ? flags_panel(args, first + kPanel * strip, panel, lane)
                                            : shown_panel(args, cells, scales, kPanel * strip, panel - flags, lane));
          }
        }
      }
      block_barrier();
      MISSDIFF_WARPS(warp, kWideWarps) {
        add_products(h[warp], shared.wide, n, tile_at(tiles, int64_t{begin} * kPanels), kPanels, warp * kEach);
      }
      block_barrier();
    }
    tiles = tile_at(tiles, int64_t{inputs} * kPanels);
    PerWarp<PerLane<RowPair>[kStrips]> mean, scale;
    for (int b = 0; b < args.blocks; ++b) {
      measure(args, h, shared, mean, scale);
      MISSDIFF_WARPS(warp, kWideWarps) {
        MISSDIFF_UNROLL_ALL
        for (int j = 0; j < kEach; ++j) {
          const int panel = warp * kEach + j;
          MISSDIFF_UNROLL_ALL
          for (int s = 0; s < kStrips; ++s) {
            MISSDIFF_LANES(lane) {
              Panel& own = h[warp].of[j][s][lane];
              const Panel gain = spread_vector(vectors.gain(b), panel, lane);
              const Panel shift = spread_shift(args, t, b, panel, lane);
              shared.normal[panel][s][lane] =
                  Product::left(normal_panel(own, mean[warp][s][lane], scale[warp][s][lane], gain, shift));
              add_panel(own, spread_vector(vectors.down(b), panel, lane));
            }
          }
        }
      }
      block_barrier();
      MISSDIFF_WARPS(warp, kWideWarps) {
        for (int begin = 0; begin < 2 * kEach; begin += kHidden) {
          make_hidden(shared, tiles, vectors.up(b), warp * 2 * kEach + begin);
        }
      }
      block_barrier();
      tiles = tile_at(tiles, int64_t{2} * kPanels * kPanels);
      MISSDIFF_WARPS(warp, kWideWarps) add_products(h[warp], shared.wide, 2 * kPanels, tiles, kPanels, warp * kEach);
      tiles = tile_at(tiles, int64_t{2} * kPanels * kPanels);
    }
    measure(args, h, shared, mean, scale);
    MISSDIFF_WARPS(warp, kWideWarps) {
      MISSDIFF_UNROLL_ALL
      for (int j = 0; j < kEach; ++j) {
        MISSDIFF_UNROLL_ALL
        for (int s = 0; s < kStrips; ++s) {
          MISSDIFF_LANES(lane) {
            const Panel normal = normal_panel(h[warp].of[j][s][lane], mean[warp][s][lane], scale[warp][s][lane]);
            shared.normal[warp * kEach + j][s][lane] = Product::left(normal);
          }
        }
      }
    }
    block_barrier();
    MISSDIFF_WARPS(warp, kWideWarps) {
      for (int o = warp; o < panels_of(args.outputs); o += kWideWarps) {
        PerLane<Panel> out[kStrips];
        MISSDIFF_UNROLL_ALL
        for (int s = 0; s < kStrips; ++s) {
          MISSDIFF_LANES(lane) out[s][lane] = spread_vector(vectors.outputs, o, lane);
        }
        for (int k = 0; k < kPanels; ++k) {
          const PerLane<Right> right = load_tile(tile_at(tiles, int64_t{o} * kPanels + k));
          MISSDIFF_UNROLL_ALL
          for (int s = 0; s < kStrips; ++s) Product::multiply(out[s], load_left(shared.normal[k][s]), right);
        }
        MISSDIFF_UNROLL_ALL
        for (int s = 0; s < kStrips; ++s) {
          MISSDIFF_LANES(lane) emit_panel(args, cells, scales, first, kPanel * s, o, lane, out[s][lane]);
        }
      }
    }
  }

 private:
  MISSDIFF_INLINE const char* tile_at(const char* tiles, int64_t index) { return tiles + index * Product::kTileBytes; }

  MISSDIFF_INLINE PerLane<Right> load_tile(const char* tile) {
    PerLane<Right> right;
    MISSDIFF_LANES(lane) right[lane] = Product::right(tile, lane);
    return right;
  }

  MISSDIFF_INLINE PerLane<Left> load_left(const Left* from) {
    PerLane<Left> left;
    MISSDIFF_LANES(lane) left[lane] = from[lane];
    return left;
  }

  // Panels of sums from `begin` on, each at a bias.
  template <int kColumns>
  MISSDIFF_INLINE void start(PanelsOf<kColumns>& sums, const float* bias, int begin) {
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kColumns; ++j) {
      MISSDIFF_UNROLL_ALL
      for (int s = 0; s < kStrips; ++s) {
        MISSDIFF_LANES(lane) sums.of[j][s][lane] = spread_vector(bias, begin + j, lane);
      }
    }
  }

  // Adds the product of n panels with the tiles [n, columns] of the columns from `begin` on.
  template <int kColumns>
  MISSDIFF_INLINE void add_products(PanelsOf<kColumns>& sums, const Left (*left)[kStrips][kLanes], int n,
                                    const char* tiles, int columns, int begin) {
    for (int k = 0; k < n; ++k) {
      PerLane<Left> factors[kStrips];
      MISSDIFF_UNROLL_ALL
      for (int s = 0; s < kStrips; ++s) factors[s] = load_left(left[k][s]);
      MISSDIFF_UNROLL_ALL
      for (int j = 0; j < kColumns; ++j) {
        const PerLane<Right> right = load_tile(tile_at(tiles, int64_t{k} * columns + begin + j));
        MISSDIFF_UNROLL_ALL
        for (int s = 0; s < kStrips; ++s) Product::multiply(sums.of[j][s], factors[s], right);
      }
    }
  }

  // kHidden panels of silu(up(normal)), from `begin` on; tiles are [kPanels, 2 kPanels].
  MISSDIFF_INLINE void make_hidden(Shared& shared, const char* tiles, const float* bias, int begin) {
    PanelsOf<kHidden> hidden;
    start(hidden, bias, begin);
    add_products(hidden, shared.normal, kPanels, tiles, 2 * kPanels, begin);
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kHidden; ++j) {
      MISSDIFF_UNROLL_ALL
      for (int s = 0; s < kStrips; ++s) {
        MISSDIFF_LANES(lane) {
          silu_panel(hidden.of[j][s][lane]);
          shared.wide[begin + j][s][lane] = Product::left(hidden.of[j][s][lane]);
        }
      }
    }
  }

  // Mean and 1 / standard deviation of each row, over all warps' columns.
  MISSDIFF_INLINE void measure(const MlpArgs& args, PerWarp<Rows>& h, Shared& shared,
                               PerWarp<PerLane<RowPair>[kStrips]>& mean, PerWarp<PerLane<RowPair>[kStrips]>& scale) {
    for (int squares = 0; squares < 2; ++squares) {
      MISSDIFF_WARPS(warp, kWideWarps) {
        MISSDIFF_UNROLL_ALL
        for (int s = 0; s < kStrips; ++s) {
          PerLane<RowPair> sums;
          MISSDIFF_LANES(lane) {
            sums[lane] = {0.0f, 0.0f};
            MISSDIFF_UNROLL_ALL
            for (int j = 0; j < kEach; ++j) {
              const Panel& own = h[warp].of[j][s][lane];
              if (squares == 0) {
                add_sums(own, sums[lane]);
              } else {
                add_squares(own, warp * kEach + j, lane, args.width, mean[warp][s][lane], sums[lane]);
              }
            }
          }
          sum_rows(sums);
          MISSDIFF_LANES(lane) {
            if (lane % 4 == 0) {
              shared.sums[warp][kPanel * s + sum_row(lane, 0)] = sums[lane].upper;
              shared.sums[warp][kPanel * s + sum_row(lane, 2)] = sums[lane].lower;
            }
          }
        }
      }
      block_barrier();
      MISSDIFF_WARPS(warp, kWideWarps) {
        MISSDIFF_UNROLL_ALL
        for (int s = 0; s < kStrips; ++s) {
          MISSDIFF_LANES(lane) {
            RowPair total{0.0f, 0.0f};
            for (int other = 0; other < kWideWarps; ++other) {
              total.upper += shared.sums[other][kPanel * s + sum_row(lane, 0)];
              total.lower += shared.sums[other][kPanel * s + sum_row(lane, 2)];
            }
            const float width = static_cast<float>(args.width);
            if (squares == 0) {
              mean[warp][s][lane] = {total.upper / width, total.lower / width};
            } else {
              scale[warp][s][lane] = {inverse_std(total.upper, args.width), inverse_std(total.lower, args.width)};
            }
          }
        }
      }
      block_barrier();
    }
  }
};

}  // namespace missdiff::cuda
