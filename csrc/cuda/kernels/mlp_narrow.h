// The default network up to a width of 128. Each warp has 16 rows of its own, whose activations stay in registers,
// since a product's sums have the layout of the next product's factor. The warps of a block read one stream of weights
// together, in the order of use.
#pragma once

#include "mlp.h"

namespace missdiff::cuda {

constexpr int kMostWarps = 8;  // of a block
constexpr int kStages = 3;     // chunks in shared memory: one in use, the others being copied

// Tiles of weights in the order of use, again for every pass of the network. All threads of a block read every chunk
// from a ring in shared memory, so that global memory is read once per block. The chunks of the states are used by the
// first of the passes of the same rows alone.
template <class Product, int kPanels>
class TileStream {
 public:
  static constexpr int kRuns = chunk_runs(kPanels, Product::kTileBytes), kTiles = kRuns * kPanels;
  static constexpr int kBytes = kTiles * Product::kTileBytes;

  MISSDIFF_MEMBER TileStream(const MlpArgs& args, char* ring, int threads)
      : tiles_(args.tiles), ring_(ring), threads_(threads), passes_(args.steps > 0 ? args.steps : 1) {
    const PassRuns runs(args, kPanels, Product::kTileBytes);
    again_ = runs.flags / kRuns;
    chunks_ = runs.all() / kRuns;
    for (int stage = 0; stage + 1 < kStages; ++stage) request();
  }

  // Goes on to the next chunk, once all threads are done with the one before.
  MISSDIFF_MEMBER void turn() {
    await_copies<kStages - 2>();
    block_barrier();  // the chunk is copied, and no thread reads the one to be overwritten
    request();
    current_ = current_ + 1 == kStages ? 0 : current_ + 1;
  }

  // A tile of the chunk. Where `place` is known to the compiler, so is the distance of all its reads.
  MISSDIFF_MEMBER PerLane<typename Product::Right> take(int place) const {
    const char* tile = ring_ + current_ * kBytes + place * Product::kTileBytes;
    PerLane<typename Product::Right> right;
    MISSDIFF_LANES(lane) right[lane] = Product::right(tile, lane);
    return right;
  }

  // Drain async copies before shared memory is released.
  MISSDIFF_MEMBER void finish() { await_copies<0>(); }

 private:
  MISSDIFF_MEMBER void request() {
    copy_ahead(tiles_ + int64_t{kBytes} * wanted_, ring_ + stage_ * kBytes, kBytes, threads_);
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
    if (++wanted_ < chunks_) return;
    pass_ = pass_ + 1 == passes_ ? 0 : pass_ + 1;
    wanted_ = pass_ == 0 ? 0 : again_;
  }

  const char* tiles_;
  char* ring_;
  int threads_, passes_;
  int again_, chunks_;                     // where a pass of known states begins, and all chunks
  int wanted_ = 0, pass_ = 0, stage_ = 0;  // the next chunk to copy, of which pass, and where it goes
  int current_ = kStages - 1;              // where the chunk in use is
};

// Shared memory of a ring, for a width of so many panels.
MISSDIFF_INLINE constexpr int64_t ring_bytes(int tile_bytes, int panels) {
  return int64_t{kStages} * chunk_runs(panels, tile_bytes) * panels * tile_bytes;
}

// Bytes of a warp's `starts`.
MISSDIFF_INLINE constexpr int64_t start_bytes(int panels) { return int64_t{panels} * kPanel * kPanel * 4; }

// A network whose width is rounded up to kPanels panels.
template <class Product, int kPanels>
struct MlpNarrow {
  using Left = typename Product::Left;
  using Stream = TileStream<Product, kPanels>;
  static constexpr int kPadded = kPanels * kPanel, kRuns = Stream::kRuns;
  static_assert(4 * kPanels * kPanels % Stream::kTiles == 0, "a block of the network has whole chunks");

  // Runs all steps of the 16 rows from `first` on. In `starts` each lane keeps its own sums of the first layer's bias
  // and the states, which are those of all steps: `start_bytes` of memory, which may be null for one step.
  MISSDIFF_INLINE void run_warp(const MlpArgs& args, const Cells& cells, char* starts, int64_t first, Stream& stream) {
    warp_barrier();  // all lanes are done with the rows before
    MISSDIFF_LANES(lane) load_cells(args, cells, first, lane, kLanes);
    warp_barrier();
    const int passes = args.steps > 0 ? args.steps : 1;
    for (int t = 0; t < passes; ++t) {
      predict(args, cells, starts, first, t, stream);
      if (args.steps == 0) return;
      warp_barrier();
      MISSDIFF_LANES(lane) softmax_cells(args, cells, lane, kLanes);
      warp_barrier();
      MISSDIFF_LANES(lane) advance_cells(args, cells, first, t, lane, kLanes);
      warp_barrier();
    }
    MISSDIFF_LANES(lane) store_cells(args, cells, first, lane, kLanes);
  }

  MISSDIFF_INLINE void predict(const MlpArgs& args, const Cells& cells, char* starts, int64_t first, int t,
                               Stream& stream) {
    const Scales scales = scales_at(args.sigmas[t]);
    const Vectors vectors = Vectors::of(args.vectors, kPadded, args.blocks);
    PerLane<Panel> h[kPanels];
    if (t == 0) {
      add_states(args, first, vectors.inputs, h, stream);
      if (args.steps > 1) keep(h, starts);
    } else {
      recall(starts, h);
    }
    for (int k = 0; k < panels_of(args.columns.width); ++k) {
      if (k % kRuns == 0) stream.turn();
      PerLane<Left> left;
      MISSDIFF_LANES(lane) left[lane] = Product::left(shown_panel(args, cells, scales, 0, k, lane));
      add_product(h, left, stream, k % kRuns * kPanels);
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
      if (o % kRuns == 0) stream.turn();
      PerLane<Panel> out;
      MISSDIFF_LANES(lane) out[lane] = spread_vector(vectors.outputs, o, lane);
      MISSDIFF_UNROLL_ALL
      for (int k = 0; k < kPanels; ++k) Product::multiply(out, n[k], stream.take(o % kRuns * kPanels + k));
      MISSDIFF_LANES(lane) emit_panel(args, cells, scales, first, 0, o, lane, out[lane]);
    }
  }

 private:
  // h <- bias + the product of the states.
  MISSDIFF_INLINE void add_states(const MlpArgs& args, int64_t first, const float* bias, PerLane<Panel> (&h)[kPanels],
                                  Stream& stream) {
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kPanels; ++j) {
      MISSDIFF_LANES(lane) h[j][lane] = spread_vector(bias, j, lane);
    }
    const int J = args.columns.continuous + args.columns.categorical;
    for (int k = 0; k < panels_of(2 * J); ++k) {
      if (k % kRuns == 0) stream.turn();
      PerLane<Left> left;
      MISSDIFF_LANES(lane) left[lane] = Product::left(flags_panel(args, first, k, lane));
      add_product(h, left, stream, k % kRuns * kPanels);
    }
  }

  MISSDIFF_INLINE void keep(const PerLane<Panel> (&h)[kPanels], char* starts) {
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kPanels; ++j) {
      MISSDIFF_LANES(lane) {
        MISSDIFF_UNROLL(2)
        for (int half = 0; half < 2; ++half) {
          const float* v = h[j][lane].v[half];
          store_as(start_of(starts, j, half, lane), Four{{v[0], v[1], v[2], v[3]}});
        }
      }
    }
  }
  MISSDIFF_INLINE void recall(char* starts, PerLane<Panel> (&h)[kPanels]) {
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kPanels; ++j) {
      MISSDIFF_LANES(lane) {
        MISSDIFF_UNROLL(2)
        for (int half = 0; half < 2; ++half) {
          const Four four = load_as<Four>(start_of(starts, j, half, lane));
          MISSDIFF_UNROLL(4)
          for (int i = 0; i < 4; ++i) h[j][lane].v[half][i] = four.v[i];
        }
      }
    }
  }
  MISSDIFF_INLINE char* start_of(char* starts, int j, int half, int lane) {
    return starts + ((2 * j + half) * kLanes + lane) * static_cast<int>(sizeof(Four));
  }

  // Adds the product of one panel with the run of tiles that begins at `begin` of the chunk.
  MISSDIFF_INLINE void add_product(PerLane<Panel> (&sums)[kPanels], const PerLane<Left>& left, const Stream& stream,
                                   int begin) {
    MISSDIFF_UNROLL_ALL
    for (int j = 0; j < kPanels; ++j) Product::multiply(sums[j], left, stream.take(begin + j));
  }

  // h <- h + down(silu(up(n))), by two panels of the hidden layer at a time, whose tiles are four runs.
  MISSDIFF_INLINE void add_block(const float* up_bias, const PerLane<Left> (&n)[kPanels], PerLane<Panel> (&h)[kPanels],
                                 Stream& stream) {
    for (int u = 0; u < 2 * kPanels; u += 2) {
      const int begin = kRuns > 4 ? u / 2 % (kRuns / 4) * 4 * kPanels : 0;  // in the chunk
      PerLane<Panel> hidden[2];
      MISSDIFF_UNROLL(2)
      for (int c = 0; c < 2; ++c) {
        MISSDIFF_LANES(lane) hidden[c][lane] = spread_vector(up_bias, u + c, lane);
      }
      MISSDIFF_UNROLL_ALL
      for (int k = 0; k < kPanels; ++k) {
        MISSDIFF_UNROLL(2)
        for (int c = 0; c < 2; ++c) {
          const int tile = 2 * k + c;
          enter(stream, begin, tile);
          Product::multiply(hidden[c], n[k], stream.take(begin + tile % Stream::kTiles));
        }
      }
      MISSDIFF_UNROLL(2)
      for (int c = 0; c < 2; ++c) {
        PerLane<Left> left;
        MISSDIFF_LANES(lane) {
          silu_panel(hidden[c][lane]);
          left[lane] = Product::left(hidden[c][lane]);
        }
        const int run = 2 + c;
        enter(stream, begin, run * kPanels);
        add_product(h, left, stream, begin + run % kRuns * kPanels);
      }
    }
  }

  // Takes the next chunk where a tile of a block's four runs is the first of one. All is known to the compiler if a
  // chunk has no more than four runs, else all but `begin`.
  MISSDIFF_INLINE void enter(Stream& stream, int begin, int tile) {
    if (tile % Stream::kTiles == 0 && begin == 0) stream.turn();
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
