// The default network up to a width of 128. Each warp has 16 rows of its own, whose activations stay in registers,
// since a product's sums have the layout of the next product's factor. The warps of a block read one stream of weights
// together, in the order of use.
#pragma once

#include "mlp.h"

namespace missdiff::cuda {

constexpr int kMostWarps = 8;  // of a block
constexpr int kStages = 3;     // chunks in shared memory: one in use, the others being copied

// Tiles of weights in the order of use, repeated for every pass of the network. All threads of a block read every tile
// from a ring of chunks in shared memory, so that global memory is read once per block.
template <class Product>
class TileStream {
 public:
  MISSDIFF_MEMBER TileStream(const char* tiles, int64_t pass_tiles, char* ring, int threads)
      : tiles_(tiles), ring_(ring), threads_(threads) {
    chunks_ = static_cast<int>((pass_tiles + kChunkTiles - 1) / kChunkTiles);
    for (int stage = 0; stage + 1 < kStages; ++stage) request();
  }

  MISSDIFF_MEMBER void begin_pass() { used_ = 0; }

  // The next tile, valid until the next call.
  MISSDIFF_MEMBER const char* next() {
    const int place = used_ % kChunkTiles;
    if (place == 0) {
      await_copies<kStages - 2>();
      block_barrier();  // the chunk is copied, and no thread reads the one to be overwritten
      request();
      current_ = current_ + 1 == kStages ? 0 : current_ + 1;
    }
    ++used_;
    return ring_ + current_ * kChunkBytes + place * Product::kTileBytes;
  }

  // Drain async copies before shared memory is released.
  MISSDIFF_MEMBER void finish() { await_copies<0>(); }

 private:
  static constexpr int kChunkTiles = kChunkBytes / Product::kTileBytes;

  MISSDIFF_MEMBER void request() {
    copy_ahead(tiles_ + int64_t{kChunkBytes} * wanted_, ring_ + stage_ * kChunkBytes, kChunkBytes, threads_);
    wanted_ = wanted_ + 1 == chunks_ ? 0 : wanted_ + 1;
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
  }

  const char* tiles_;
  char* ring_;
  int threads_, chunks_;
  int used_ = 0;                // tiles of this pass
  int wanted_ = 0, stage_ = 0;  // the next chunk to copy, and where it goes
  int current_ = kStages - 1;   // where the chunk in use is
};

template <class Product>
MISSDIFF_INLINE PerLane<typename Product::Right> take(TileStream<Product>& stream) {
  const char* tile = stream.next();
  PerLane<typename Product::Right> right;
  MISSDIFF_LANES(lane) right[lane] = Product::right(tile, lane);
  return right;
}

// A network whose width is rounded up to kPanels panels.
template <class Product, int kPanels>
struct MlpNarrow {
  using Left = typename Product::Left;
  using Right = typename Product::Right;
  static constexpr int kPadded = kPanels * kPanel;

  // Runs all steps of the 16 rows from `first` on.
  MISSDIFF_INLINE void run_warp(const MlpArgs& args, const Cells& cells, int64_t first, TileStream<Product>& stream) {
    warp_barrier();  // all lanes are done with the rows before
    MISSDIFF_LANES(lane) load_cells(args, cells, first, lane, kLanes);
    warp_barrier();
    const int passes = args.steps > 0 ? args.steps : 1;
    for (int t = 0; t < passes; ++t) {
      predict(args, cells, first, t, stream);
      if (args.steps == 0) return;
      warp_barrier();
      MISSDIFF_LANES(lane) softmax_cells(args, cells, lane, kLanes);
      warp_barrier();
      MISSDIFF_LANES(lane) advance_cells(args, cells, first, t, lane, kLanes);
      warp_barrier();
    }
    MISSDIFF_LANES(lane) store_cells(args, cells, first, lane, kLanes);
  }

  MISSDIFF_INLINE void predict(const MlpArgs& args, const Cells& cells, int64_t first, int t,
                               TileStream<Product>& stream) {
    const int J = args.columns.continuous + args.columns.categorical;
    const Scales scales = scales_at(args.sigmas[t]);
    const Vectors vectors = Vectors::of(args.vectors, kPadded, args.blocks);
    stream.begin_pass();
    PerLane<Panel> h[kPanels];
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kPanels; ++j) {
      MISSDIFF_LANES(lane) h[j][lane] = spread_vector(vectors.inputs, j, lane);
    }
    for (int k = 0; k < panels_of(2 * J); ++k) {
      PerLane<Left> left;
      MISSDIFF_LANES(lane) left[lane] = Product::left(flags_panel(args, first, k, lane));
      add_product(h, left, stream);
    }
    for (int k = 0; k < panels_of(args.columns.width); ++k) {
      PerLane<Left> left;
      MISSDIFF_LANES(lane) left[lane] = Product::left(shown_panel(args, cells, scales, 0, k, lane));
      add_product(h, left, stream);
    }
    PerLane<Left> n[kPanels];
    for (int b = 0; b < args.blocks; ++b) {
      PerLane<RowPair> mean, scale;
      measure(args, h, mean, scale);
      MISSDIFF_UNROLL_ALL
      for (int j = 0; j < kPanels; ++j) {
        MISSDIFF_LANES(lane) {
          const Panel gain = spread_vector(vectors.gain(b), j, lane), shift = spread_shift(args, t, b, j, lane);
          n[j][lane] = Product::left(normal_panel(h[j][lane], mean[lane], scale[lane], gain, shift));
          add_panel(h[j][lane], spread_vector(vectors.down(b), j, lane));
        }
      }
      add_block(vectors.up(b), n, h, stream);
    }
    PerLane<RowPair> mean, scale;
    measure(args, h, mean, scale);
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kPanels; ++j) {
      MISSDIFF_LANES(lane) n[j][lane] = Product::left(normal_panel(h[j][lane], mean[lane], scale[lane]));
    }
    for (int o = 0; o < panels_of(args.outputs); ++o) {
      PerLane<Panel> out;
      MISSDIFF_LANES(lane) out[lane] = spread_vector(vectors.outputs, o, lane);
      MISSDIFF_UNROLL_ALL
      for (int k = 0; k < kPanels; ++k) Product::multiply(out, n[k], take(stream));
      MISSDIFF_LANES(lane) emit_panel(args, cells, scales, first, 0, o, lane, out[lane]);
    }
  }

 private:
  MISSDIFF_INLINE void add_product(PerLane<Panel> (&sums)[kPanels], const PerLane<Left>& left,
                                   TileStream<Product>& stream) {
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kPanels; ++j) Product::multiply(sums[j], left, take(stream));
  }

  // h <- h + down(silu(up(n))), by two panels of the hidden layer at a time.
  MISSDIFF_INLINE void add_block(const float* up_bias, const PerLane<Left> (&n)[kPanels], PerLane<Panel> (&h)[kPanels],
                                 TileStream<Product>& stream) {
    for (int u = 0; u < 2 * kPanels; u += 2) {
      PerLane<Panel> hidden[2];
      MISSDIFF_UNROLL(2)
      for (int c = 0; c < 2; ++c) {
        MISSDIFF_LANES(lane) hidden[c][lane] = spread_vector(up_bias, u + c, lane);
      }
      MISSDIFF_UNROLL_ALL
      for (int k = 0; k < kPanels; ++k) {
        MISSDIFF_UNROLL(2)
        for (int c = 0; c < 2; ++c) Product::multiply(hidden[c], n[k], take(stream));
      }
      MISSDIFF_UNROLL(2)
      for (int c = 0; c < 2; ++c) {
        PerLane<Left> left;
        MISSDIFF_LANES(lane) {
          silu_panel(hidden[c][lane]);
          left[lane] = Product::left(hidden[c][lane]);
        }
        add_product(h, left, stream);
      }
    }
  }

  // Mean and 1 / standard deviation of each row.
  MISSDIFF_INLINE void measure(const MlpArgs& args, const PerLane<Panel> (&h)[kPanels], PerLane<RowPair>& mean,
                               PerLane<RowPair>& scale) {
    PerLane<RowPair> sums;
    MISSDIFF_LANES(lane) {
      sums[lane] = {0.0f, 0.0f};
      MISSDIFF_UNROLL_ALL
      for (int j = 0; j < kPanels; ++j) add_sums(h[j][lane], sums[lane]);
    }
    sum_rows(sums);
    MISSDIFF_LANES(lane) {
      mean[lane] = {sums[lane].upper / static_cast<float>(args.width),
                    sums[lane].lower / static_cast<float>(args.width)};
      sums[lane] = {0.0f, 0.0f};
      MISSDIFF_UNROLL_ALL
      for (int j = 0; j < kPanels; ++j) add_squares(h[j][lane], j, lane, args.width, mean[lane], sums[lane]);
    }
    sum_rows(sums);
    MISSDIFF_LANES(lane) {
      scale[lane] = {inverse_std(sums[lane].upper, args.width), inverse_std(sums[lane].lower, args.width)};
    }
  }
};

}  // namespace missdiff::cuda
