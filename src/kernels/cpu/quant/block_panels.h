#pragma once

#include "kernels/cpu/quant/block_rows.h"
#include "kernels/cpu/quant/packed_kernel.h"

// Computes products of many rows of x with quantized rows. kNr rows of w are first unpacked to bytes in
// memory, once for all rows of x. A vector lane then holds values of a single output, so dot products need no
// sums across lanes. The partial sums are the same as in block_rows.h, so the results are bit-identical:
// blocks of the same partial sum are adjacent, and each partial sum is finished before the next one starts.
//
//   expand kNr rows of w
//   for tiles of rows of x and outputs
//     for c in 16 partial sums
//       for b in blocks c, c + 16, ...
//         s[mr][nr] = dot products of the block, exact
//         t[mr][nr] += d_w d_x * s (+ m_w * (d_x * sum of q_x))
//       y[mr][nr] += t
//
//   a block of a panel:               | d of every output | m of every output |      fp32; m is optional
//                                     | scale of half 0 of every output | of half 1 |      int32; Q6_K only
//                                     | k-pack 0 of every output | ... | k-pack 7 |
//   a block of a row of activations:  | d | d * sum of q | start | start of half 1 | 32 values |
//                                     start = -zero point * sum of q; in Q6_K for each half
//
// This header is only included by sources that are compiled once for each instruction set.

namespace gpt::quant {
namespace {

constexpr int kRowOffset = 4, kRowStart = 8, kRowData = 16;  // byte offsets in a block
static_assert(kRowData + 32 == kPanelActBlock);

// The micro-tile has as many accumulators as fit into registers. Q6_K has fewer rows, because it needs
// integer sums of both halves of a block.
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

// Orders the blocks of a row by partial sum, then by position.
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

// Points to kLanes rows of w, and to the part of a panel to which these rows are expanded.
template <DType dtype>
struct PanelRows {
  // Pointers to every fourth row. A pointer for each row would not fit into registers.
  const uint8_t* quads[kLanes / 4];
  int64_t stride;
  uint8_t* panel;
  BlockOrder order;

  GPT_ALWAYS_INLINE const uint8_t* row(int r) const { return quads[r / 4] + r % 4 * stride; }
  // Loads 16 bytes from offset `at` of every row. Register i of the result holds bytes 4 i to 4 i + 3 of
  // every row.
  GPT_ALWAYS_INLINE void load(int64_t at, IVec (&v)[4]) const {
    GPT_UNROLL
    for (int i = 0; i < 4; ++i)
      v[i] = quarters([&](int k) { return row(4 * k + i) + at; });
    transpose4(v);
  }
  // Loads the fp16 value at offset `at` of every row.
  GPT_ALWAYS_INLINE Vec load_f16s(int64_t at) const {
    return f16s([&](int r) { return row(r) + at; });
  }
  GPT_ALWAYS_INLINE uint8_t* block(int64_t b) const { return panel + order.place(b) * kPanelBlock<dtype>; }
};

constexpr int kPanelPackBytes = 4 * static_cast<int>(kNr);

inline Vec negative(Vec v) {
  return as_floats(xor_i(bits_of(v), set1_i(0x80000000u)));
}

// Stores four k-packs, which are values 16 h to 16 h + 15 of a block of a panel.
template <DType dtype>
GPT_INLINE void put_packs(uint8_t* block, int h, const IVec (&v)[4]) {
  GPT_UNROLL
  for (int i = 0; i < 4; ++i)
    store_i(block + kPanelData<dtype> + (4 * h + i) * kPanelPackBytes, v[i]);
}
template <DType dtype>
GPT_INLINE void put_scales(uint8_t* block, Vec d, Vec m) {
  store(reinterpret_cast<float*>(block), d);
  if constexpr (has_minimum(dtype)) store(reinterpret_cast<float*>(block + kPanelPackBytes), m);
}

template <int n>
GPT_INLINE IVec shift_right_signed(IVec v) {
  return GPT_MM(srai_epi32)(v, n);
}
// Shifts right by n bits, or left if n is negative.
template <int n>
GPT_INLINE IVec shifted(IVec v) {
  if constexpr (n < 0) return shift_left_i<-n>(v);
  return shift_right_i<(n < 0 ? 0 : n)>(v);
}
// For each byte, computes v = (4 bits of low) | ((high >> shift) & mask), where `upper` selects the high 4
// bits of `low`.
template <bool upper, int shift, int mask>
GPT_INLINE void join_bits(const IVec (&low)[4], const IVec (&high)[4], IVec (&v)[4]) {
  GPT_UNROLL
  for (int i = 0; i < 4; ++i) {
    v[i] = and_bytes(upper ? shift_right_i<4>(low[i]) : low[i], 15);
    if constexpr (mask != 0) v[i] = or_masked(v[i], shifted<shift>(high[i]), mask);
  }
}

// Expands block b of a dtype without super-blocks. In each row, the block starts at byte offset `at`.
template <DType dtype>
GPT_INLINE void expand_block(const PanelRows<dtype>& rows, int64_t b, int64_t at) {
  constexpr int64_t kData = block_size(dtype).bytes - (dtype == DType::q8_0 ? 32 : 16);
  uint8_t* block = rows.block(b);
  IVec fifth = set1_i(0);
  if constexpr (has_minimum(dtype)) {
    IVec header[4];  // d and min; in Q5_1 also the fifth bits
    rows.load(at, header);
    fifth = header[1];
    put_scales<dtype>(block, low_f16(header[0]), low_f16(shift_right_i<16>(header[0])));
  } else if constexpr (dtype == DType::q5_0) {
    IVec header[4];  // d and the fifth bits
    rows.load(at, header);
    fifth = or_i(shift_right_i<16>(header[0]), shift_left_i<16>(header[1]));
    put_scales<dtype>(block, low_f16(header[0]), zero());
  } else {
    put_scales<dtype>(block, rows.load_f16s(at), zero());
  }
  IVec q[4];
  rows.load(at + kData, q);
  if constexpr (dtype == DType::q8_0) {
    GPT_UNROLL
    for (int h = 0; h < 2; ++h) {
      if (h == 1) rows.load(at + kData + 16, q);
      GPT_UNROLL
      for (IVec& v : q)
        v = signed_numbers(v);
      put_packs<dtype>(block, h, q);
    }
    return;
  }
  GPT_UNROLL
  for (int h = 0; h < 2; ++h) {
    IVec v[4];
    join_bits<false, 0, 0>(q, q, v);
    if constexpr (dtype == DType::iq4_nl) {
      GPT_UNROLL
      for (IVec& pack : v)
        pack = iq4_numbers(pack);
    }
    if constexpr (dtype == DType::q5_0 || dtype == DType::q5_1) {
      GPT_UNROLL
      for (IVec& pack : v) {
        // The multiplication moves bits 0 to 3 to bit 4 of bytes 0 to 3.
        pack = or_masked(pack, mul_i(and_i(fifth, set1_i(15)), set1_i(0x02040810)), 16);
        fifth = shift_right_i<4>(fifth);
      }
    }
    put_packs<dtype>(block, h, v);
    GPT_UNROLL
    for (IVec& pack : q)
      pack = shift_right_i<4>(pack);
  }
}

// Expands the scales and minimums of a super-block of Q4_K or Q5_K.
template <DType dtype>
GPT_INLINE void expand_super_block_scales(const PanelRows<dtype>& rows, int64_t b, int64_t at) {
  IVec header[4];  // d and min, then three groups of four bytes that pack 6-bit values (kernels/quant.h)
  rows.load(at, header);
  const Vec d = low_f16(header[0]), min = negative(low_f16(shift_right_i<16>(header[0])));
  const auto above = [&](IVec low, IVec high) GPT_ALWAYS_INLINE {
    return or_masked(and_bytes(low, 15), shift_right_i<2>(high), 48);
  };
  IVec s[2] = {and_bytes(header[1], 63), above(header[3], header[1])};
  IVec m[2] = {and_bytes(header[2], 63), above(shift_right_i<4>(header[3]), header[2])};
  GPT_UNROLL
  for (int i = 0; i < 8; ++i) {
    const auto next = [&](IVec& bytes) GPT_ALWAYS_INLINE {
      const Vec number = to_float(and_i(bytes, set1_i(255)));
      bytes = shift_right_i<8>(bytes);
      return number;
    };
    const Vec scale = next(s[i / 4]), minimum = next(m[i / 4]);
    put_scales<dtype>(rows.block(b + i), d * scale, min * minimum);
  }
}

// Expands the super-block of Q4_K or Q5_K that consists of blocks b to b + 7.
template <DType dtype>
GPT_INLINE void expand_k_block(const PanelRows<dtype>& rows, int64_t b, int64_t at) {
  constexpr int kFifth = dtype == DType::q5_k ? 16 : 0;
  expand_super_block_scales<dtype>(rows, b, at);
  GPT_UNROLL
  for (int h = 0; h < 2; ++h) {
    IVec high[4] = {};
    if constexpr (kFifth != 0) rows.load(at + 16 + 16 * h, high);
    GPT_UNROLL
    for (int pair = 0; pair < 4; ++pair) {
      IVec q[4], v[4];
      rows.load(at + block_size(dtype).bytes - 128 + 32 * pair + 16 * h, q);
      join_bits<false, -4, kFifth>(q, high, v);
      put_packs<dtype>(rows.block(b + 2 * pair), h, v);
      join_bits<true, -3, kFifth>(q, high, v);
      put_packs<dtype>(rows.block(b + 2 * pair + 1), h, v);
      GPT_UNROLL
      for (IVec& bits : high)
        bits = shift_right_i<2>(bits);
    }
  }
}

// Expands the super-block of Q6_K that consists of blocks b to b + 7.
GPT_INLINE void expand_q6_block(const PanelRows<DType::q6_k>& rows, int64_t b, int64_t at) {
  constexpr DType kType = DType::q6_k;
  IVec scales[4];  // scales of the half blocks, one byte each
  rows.load(at + 192, scales);
  const Vec d = rows.load_f16s(at + 208);
  GPT_UNROLL
  for (int i = 0; i < 8; ++i) {
    uint8_t* block = rows.block(b + i);
    put_scales<kType>(block, d, zero());
    GPT_UNROLL
    for (int h = 0; h < 2; ++h) {
      IVec& bytes = scales[i / 2];
      store_i(block + kPanelHalfScales<kType> + h * kPanelPackBytes,
              shift_right_signed<24>(shift_left_i<24>(bytes)));
      bytes = shift_right_i<8>(bytes);
    }
  }
  GPT_UNROLL
  for (int part = 0; part < 4; ++part) {
    const int half = part / 2, h = part % 2;  // half of the super-block, half of a block
    IVec high[4], even[4], odd[4], v[4];
    rows.load(at + 128 + 32 * half + 16 * h, high);
    rows.load(at + 64 * half + 16 * h, even);
    rows.load(at + 64 * half + 32 + 16 * h, odd);
    const int64_t first = b + 4 * half;
    join_bits<false, -4, 48>(even, high, v);
    put_packs<kType>(rows.block(first), h, v);
    join_bits<false, -2, 48>(odd, high, v);
    put_packs<kType>(rows.block(first + 1), h, v);
    join_bits<true, 0, 48>(even, high, v);
    put_packs<kType>(rows.block(first + 2), h, v);
    join_bits<true, 2, 48>(odd, high, v);
    put_packs<kType>(rows.block(first + 3), h, v);
  }
}

// Expands blocks [b, end) of kLanes rows. w: start of block b in the first row.
template <DType dtype>
__attribute__((noinline)) void expand_blocks(const uint8_t* w, int64_t stride, uint8_t* panel,
                                             BlockOrder order, int64_t b, int64_t end) {
  constexpr int64_t kBytes = block_size(dtype).bytes, kBlocks = block_size(dtype).elements / 32;
  PanelRows<dtype> rows{.quads = {}, .stride = stride, .panel = panel, .order = order};
  for (int r = 0; r < kLanes; r += 4)
    rows.quads[r / 4] = w + r * stride;
  int64_t fetched = 0;
  for (int64_t at = 0; b < end; b += kBlocks, at += kBytes) {
    // Hardware prefetching stops at the end of each short row, so the next rows are prefetched here.
    for (; fetched < at + kBytes; fetched += 64) {
      GPT_UNROLL
      for (int r = 0; r < kLanes; ++r)
        __builtin_prefetch(rows.row(r) + kLanes * stride + fetched, 0, 2);
    }
    if constexpr (kBlocks == 1) {
      expand_block<dtype>(rows, b, at);
    } else if constexpr (dtype == DType::q6_k) {
      expand_q6_block(rows, b, at);
    } else {
      expand_k_block<dtype>(rows, b, at);
    }
  }
}

// Expands kLanes rows of w, starting at row `first`. If there are fewer rows, the last row is repeated.
template <DType dtype>
void expand_rows(const ExpandArgs& a, int64_t first) {
  constexpr int64_t kBytes = block_size(dtype).bytes, kBlocks = block_size(dtype).elements / 32;
  uint8_t* panel = a.panel + 4 * first;
  if (first + kLanes <= a.outputs)
    return expand_blocks<dtype>(a.w + first * a.w_stride, a.w_stride, panel, {a.blocks}, 0, a.blocks);
  uint8_t copy[kLanes * kBytes];
  for (int64_t b = 0, at = 0; b < a.blocks; b += kBlocks, at += kBytes) {
    for (int64_t r = 0; r < kLanes; ++r)
      __builtin_memcpy(copy + r * kBytes,
                       a.w + (first + r < a.outputs ? first + r : a.outputs - 1) * a.w_stride + at, kBytes);
    expand_blocks<dtype>(copy, kBytes, panel, {a.blocks}, b, b + kBlocks);
  }
}

void expand_panel(const ExpandArgs& a) {
  with_block_type(a.dtype, [&]<DType dtype>() {
    for (int64_t o = 0; o < kNr; o += kLanes)
      expand_rows<dtype>(a, o);
  });
}

// Returns the number of k-packs whose pairwise products can be added in 16 bits without overflow. Returns 1
// if 16-bit sums are not used.
constexpr int packs_in_16_bits([[maybe_unused]] DType dtype) {
#if defined(GPT_SIMD_BF16)
  return 1;
#else
  // 2 * 4 * 31 * 127 and 2 * 2 * 63 * 127 are less than 2^15.
  return has_signs(dtype) ? 1 : dtype == DType::q6_k ? 2 : 4;
#endif
}

template <int R>
using TileSums = IVec[R][kTileVecs];

// Computes the exact dot products over k-packs [first, end) of a block. The sums start at the zero-point
// correction that is stored with the activations. x: the activations of the block.
template <DType dtype, int R, int first, int end>
GPT_INLINE void panel_products(const PanelArgs& a, const uint8_t* x, const uint8_t* w, TileSums<R>& sums) {
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    GPT_UNROLL
    for (int v = 0; v < kTileVecs; ++v)
      sums[r][v] = set1_i(load_as<int32_t>(x + r * a.x_stride + kRowStart + first));
  }
  constexpr int n = packs_in_16_bits(dtype);
  GPT_UNROLL
  for (int g = first; g < end; g += n) {
    TileSums<R> pairs;  // 16-bit sums of n k-packs
    GPT_UNROLL
    for (int k = g; k < g + n; ++k) {
      IVec q[kTileVecs];
      GPT_UNROLL
      for (int v = 0; v < kTileVecs; ++v)
        q[v] = load_i(w + kPanelData<dtype> + k * kPanelPackBytes + 4 * v * kLanes);
      GPT_UNROLL
      for (int r = 0; r < R; ++r) {
        const IVec pack = set1_i(load_as<int32_t>(x + r * a.x_stride + kRowData + 4 * k));
        GPT_UNROLL
        for (int v = 0; v < kTileVecs; ++v) {
          if constexpr (n == 1) {
            sums[r][v] = accumulate_dot4<has_signs(dtype)>(sums[r][v], q[v], pack);
          } else {
            pairs[r][v] = k == g ? dot2(q[v], pack) : add_i16(pairs[r][v], dot2(q[v], pack));
          }
        }
      }
    }
    if constexpr (n == 1) continue;
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      GPT_UNROLL
      for (int v = 0; v < kTileVecs; ++v)
        sums[r][v] = add_i(sums[r][v], madd_i16(pairs[r][v], set1_i16(1)));
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

// Adds the products of a block to the accumulators.
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

// Multiplies R rows of x with kTileVecs vectors of outputs, starting at vector `first`.
template <DType dtype, int R>
void multiply_tile(const PanelArgs& a, const uint8_t* x, uint8_t* y, int first) {
  const uint8_t* w = a.w + first * kLanes * 4;
  prefetch_result<R, kTileVecs>(a, y, first);
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
    const int64_t tiles = (a.rows + kTileRows<dtype> - 1) / kTileRows<dtype>;
    for (int64_t t = 0, r = 0; t < tiles; ++t) {
      const int64_t rows = (a.rows - r + tiles - t - 1) / (tiles - t);  // balanced: 8 rows are split into 4 +
                                                                        // 4, not 6 + 2
      for (int first = 0; first < kPanelVecs; first += kTileVecs)
        multiply_tile_of<dtype>(rows, a, a.x + r * a.x_stride, a.y + r * a.y_stride, first);
      r += rows;
    }
  });
}

}  // namespace
}  // namespace gpt::quant
