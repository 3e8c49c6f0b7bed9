#pragma once

#include "kernels/cpu/quant/block_rows.h"
#include "kernels/cpu/quant/packed_kernel.h"

// Products of many rows of x with rows of blocks: kNr rows of w are first unpacked to bytes in memory, once
// for all rows of x, so that a lane holds numbers of one output alone and dot products need no sums across
// lanes. The partial sums are those of block_rows.h, so the bits are the same: blocks that belong to the same
// one lie side by side, and one is finished before the next begins.
//
//   expand kNr rows of w
//   for tiles of rows of x and outputs
//     for c in 16 partial sums
//       for b in blocks c, c + 16, ...
//         s[mr][nr] = dot products of the block, exact
//         t[mr][nr] += d_w d_x * s (+ m_w * (d_x * sum of q_x))
//       y[mr][nr] += t
//
//   a block of a panel:               | d of every output | m of every output |      fp32; m where there is
//   one
//                                     | scale of half 0 of every output | of half 1 |      int32; Q6_K
//                                     | k-pack 0 of every output | ... | k-pack 7 |
//   a block of a row of activations:  | d | d * sum of q | start | start of half 1 | 32 numbers |
//                                     start = -zero point * sum of q; in Q6_K of each half
//
// Internal to the units compiled once per instruction set.

namespace gpt::quant {
namespace {

constexpr int kRowOffset = 4, kRowStart = 8, kRowData = 16;  // bytes from the beginning of a block
static_assert(kRowData + 32 == kPanelActBlock);

// The micro-tile: as many accumulators as the registers hold. Q6_K has integer sums of both halves.
template <DType dtype>
constexpr int kTileRows = kLanes == 8            ? 2
                          : dtype == DType::q6_k ? 4
                                                 : 6;
constexpr int kTileVecs = 2;

template <DType dtype>
constexpr int kPanelHalfScales = 4 * static_cast<int>(kNr) * (has_minimum(dtype) ? 2 : 1);
template <DType dtype>
constexpr int kPanelData = kPanelHalfScales<dtype> + (dtype == DType::q6_k ? 8 * static_cast<int>(kNr) : 0);
template <DType dtype>
constexpr int kPanelBlock = kPanelData<dtype> + 32 * static_cast<int>(kNr);
static_assert(kPanelBlock<DType::q6_k> == kExpandedBlockBytes &&
              kPanelBlock<DType::q4_k> < kExpandedBlockBytes);

// The blocks of a row ordered by their partial sums.
struct BlockOrder {
  int64_t blocks;

  int64_t count(int64_t c) const { return (blocks + kPartialSums - 1 - c) / kPartialSums; }
  int64_t place(int64_t b) const {
    const int64_t c = b % kPartialSums, rest = blocks % kPartialSums;
    return c * (blocks / kPartialSums) + (c < rest ? c : rest) + b / kPartialSums;
  }
};

void quantize_for_panels(const QuantizeArgs& a) {
  const auto* x = static_cast<const uint8_t*>(a.x);
  const BlockOrder order{a.n / 32};
  const int bits = zero_point_bits(a.w), zero = bits < 0 ? 0 : 1 << bits;
  for (int64_t b = 0; b < order.blocks; ++b, x += 32 * size_of(a.dtype)) {
    uint8_t* dst = static_cast<uint8_t*>(a.dst) + order.place(b) * kPanelActBlock;
    const QuantizedBlock q =
        quantize_block(x, a.dtype, [&](int64_t j, IVec numbers) { store_i8(dst + kRowData + j, numbers); });
    const float scales[2] = {q.d, q.d * static_cast<float>(q.sum())};
    const int32_t start[2] = {-zero * (a.w == DType::q6_k ? q.half_sum[0] : q.sum()), -zero * q.half_sum[1]};
    __builtin_memcpy(dst, scales, sizeof scales);
    __builtin_memcpy(dst + kRowStart, start, sizeof start);
  }
}

// Where vectors of kLanes outputs of a panel go.
template <DType dtype>
struct PanelPart {
  uint8_t* panel;
  BlockOrder order;

  // Vector `at` bytes into the block, of block b, unless the row ends before it.
  void put(int64_t b, int at, Vec v) const {
    if (b < order.blocks)
      store(reinterpret_cast<float*>(panel + order.place(b) * kPanelBlock<dtype> + at), v);
  }
};

// A span of kLanes rows of w, whose first block is b.
template <DType dtype>
inline void expand_span(const uint8_t* const (&w)[kLanes], int64_t b, const PanelPart<dtype>& part) {
  constexpr int kPackBytes = 4 * static_cast<int>(kNr), kBlocks = kLanes / 8;  // in a register
  Vec v[kLanes];
  const auto transposed = [&](auto vector_of) GPT_ALWAYS_INLINE {
    GPT_UNROLL
    for (int o = 0; o < kLanes; ++o)
      v[o] = vector_of(w[o]);
    transpose(v);
  };
  GPT_UNROLL
  for (int i = 0; i < kRegisters; ++i) {
    transposed([&](const uint8_t* p) GPT_ALWAYS_INLINE { return as_floats(unpack<dtype>(p, i)); });
    GPT_UNROLL
    for (int g = 0; g < kLanes; ++g)
      part.put(b + kBlocks * i + g / 8, kPanelData<dtype> + g % 8 * kPackBytes, v[g]);
  }
  Vec minimums[kLanes];
  GPT_UNROLL
  for (int o = 0; o < kLanes; ++o) {
    const SpanScales scales = load_scales<dtype>(w[o]);
    v[o] = scales.d;
    minimums[o] = scales.m;
  }
  const auto put_scales = [&](Vec(&scales)[kLanes], int at) GPT_ALWAYS_INLINE {
    transpose(scales);
    for (int i = 0; i < kSpan; ++i)
      part.put(b + i, at, scales[i]);
  };
  put_scales(v, 0);
  if constexpr (has_minimum(dtype)) put_scales(minimums, kPackBytes);
  if constexpr (dtype == DType::q6_k) {
    for (int k = 0; k < 2; ++k) {
      transposed([&](const uint8_t* p) GPT_ALWAYS_INLINE { return as_floats(half_scales(p, k)); });
      for (int i = 0; i < kLanes; ++i)
        part.put(b + k * kLanes / 2 + i / 2, kPanelHalfScales<dtype> + i % 2 * kPackBytes, v[i]);
    }
  }
}

// kLanes rows of w from row `first`, and the last one of them again for those that there are not.
template <DType dtype>
void expand_rows(const ExpandArgs& a, int64_t first, const PanelPart<dtype>& part) {
  constexpr int64_t kBytes = bytes_of<dtype>(kSpan);
  const uint8_t* w[kLanes];
  for (int64_t o = 0; o < kLanes; ++o)
    w[o] = a.w + (first + o < a.outputs ? first + o : a.outputs - 1) * a.w_stride;
  int64_t b = 0;
  for (; b + kSpan <= a.blocks; b += kSpan) {
    expand_span<dtype>(w, b, part);
    for (const uint8_t*& p : w) {
      // The processor's own prefetching ends with each short row.
      for (int64_t i = 0; i < kBytes; i += 64)
        __builtin_prefetch(p + kLanes * a.w_stride + i, 0, 2);
      p += kBytes;
    }
  }
  if (b == a.blocks) return;
  alignas(64) uint8_t padded[kLanes][kBytes] = {};
  for (int o = 0; o < kLanes; ++o) {
    __builtin_memcpy(padded[o], w[o], static_cast<size_t>(bytes_of<dtype>(a.blocks - b)));
    w[o] = padded[o];
  }
  expand_span<dtype>(w, b, part);
}

void expand_panel(const ExpandArgs& a) {
  with_block_type(a.dtype, [&]<DType dtype>() {
    for (int64_t o = 0; o < kNr; o += kLanes)
      expand_rows<dtype>(a, o, {a.panel + o * 4, {a.blocks}});
  });
}

template <int R>
using TileSums = IVec[R][kTileVecs];

// The exact products of k-packs [first, end) of a block; x: its activations.
template <DType dtype, int R, int first, int end>
GPT_INLINE void panel_products(const PanelArgs& a, const uint8_t* x, const uint8_t* w, TileSums<R>& sums) {
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    GPT_UNROLL
    for (int v = 0; v < kTileVecs; ++v)
      sums[r][v] = set1_i(load_as<int32_t>(x + r * a.x_stride + kRowStart + first));
  }
  GPT_UNROLL
  for (int g = first; g < end; ++g) {
    IVec q[kTileVecs];
    GPT_UNROLL
    for (int v = 0; v < kTileVecs; ++v)
      q[v] = load_i(w + kPanelData<dtype> + 4 * (g * kNr + v * kLanes));
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      const IVec pack = set1_i(load_as<int32_t>(x + r * a.x_stride + kRowData + 4 * g));
      GPT_UNROLL
      for (int v = 0; v < kTileVecs; ++v)
        sums[r][v] = accumulate_dot4<dtype == DType::q8_0>(sums[r][v], q[v], pack);
    }
  }
}

template <DType dtype, int R>
GPT_INLINE void panel_block_sums(const PanelArgs& a, const uint8_t* x, const uint8_t* w, TileSums<R>& sums) {
  if constexpr (dtype == DType::q6_k) {
    TileSums<R> half;
    panel_products<dtype, R, 0, 4>(a, x, w, sums);
    panel_products<dtype, R, 4, 8>(a, x, w, half);
    GPT_UNROLL
    for (int v = 0; v < kTileVecs; ++v) {
      const uint8_t* scales = w + kPanelHalfScales<dtype> + 4 * v * kLanes;
      const IVec s0 = load_i(scales), s1 = load_i(scales + 4 * kNr);
      GPT_UNROLL
      for (int r = 0; r < R; ++r)
        sums[r][v] = add_i(mul_i(sums[r][v], s0), mul_i(half[r][v], s1));
    }
  } else {
    panel_products<dtype, R, 0, 8>(a, x, w, sums);
  }
}

// Adds the products of a block.
template <DType dtype, int R>
GPT_INLINE void add_panel_block(const PanelArgs& a, const uint8_t* x, const uint8_t* w,
                                Vec (&acc)[R][kTileVecs]) {
  TileSums<R> sums;
  panel_block_sums<dtype, R>(a, x, w, sums);
  const auto* scales = reinterpret_cast<const float*>(w);
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    const Vec d = set1(load_as<float>(x + r * a.x_stride));
    const Vec offset = set1(load_as<float>(x + r * a.x_stride + kRowOffset));
    GPT_UNROLL
    for (int v = 0; v < kTileVecs; ++v) {
      acc[r][v] = fma(load(scales + v * kLanes) * d, to_float(sums[r][v]), acc[r][v]);
      if constexpr (has_minimum(dtype)) acc[r][v] = fma(load(scales + kNr + v * kLanes), offset, acc[r][v]);
    }
  }
}

// R rows of x with kTileVecs vectors of outputs from vector `first`.
template <DType dtype, int R>
void multiply_tile(const PanelArgs& a, const uint8_t* x, uint8_t* y, int first) {
  const uint8_t* w = a.w + first * kLanes * 4;
  Vec total[R][kTileVecs];
  clear(total);
  for (int64_t c = 0; c < kPartialSums; ++c) {
    Vec acc[R][kTileVecs];
    clear(acc);
    for (int64_t n = BlockOrder{a.blocks}.count(c); n > 0; --n, x += kPanelActBlock, w += kPanelBlock<dtype>)
      add_panel_block<dtype, R>(a, x, w, acc);
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      GPT_UNROLL
      for (int v = 0; v < kTileVecs; ++v)
        total[r][v] = c == 0 ? acc[r][v] : total[r][v] + acc[r][v];
    }
  }
  GPT_UNROLL
  for (int r = 0; r < R; ++r)
    finish_row<kTileVecs>(a, total[r], y + r * a.y_stride, first);
}

template <DType dtype, int R = kTileRows<dtype>>
void multiply_tile_of(int64_t rows, const PanelArgs& a, const uint8_t* x, uint8_t* y, int first) {
  if constexpr (R > 1) {
    if (rows < R) return multiply_tile_of<dtype, R - 1>(rows, a, x, y, first);
  }
  multiply_tile<dtype, R>(a, x, y, first);
}

void multiply_expanded(const PanelArgs& a) {
  with_block_type(a.dtype, [&]<DType dtype>() {
    for (int64_t r = 0; r < a.rows; r += kTileRows<dtype>) {
      for (int first = 0; first < kPanelVecs; first += kTileVecs)
        multiply_tile_of<dtype>(a.rows - r, a, a.x + r * a.x_stride, a.y + r * a.y_stride, first);
    }
  });
}

}  // namespace
}  // namespace gpt::quant
