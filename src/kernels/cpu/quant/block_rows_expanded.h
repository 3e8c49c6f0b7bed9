#pragma once

#include "kernels/cpu/quant/block_rows.h"

// Products of many rows of x with rows of blocks: kExpandedColumns rows of w are first unpacked to bytes in
// memory, once for all rows of x, and transposed, so that a lane holds numbers of one block alone and dot
// products need no sums across lanes.
//
//   expand kExpandedColumns rows of w
//   for pairs of rows of x
//     for spans
//       s = dot products of each block with each row, exact; lane b has block b
//       acc += d_w d_x * s (+ m_w * (d_x * sum of q_x))
//     y = the partial sums of each accumulator added in order
//
//   an expanded span of a row of w:   | k-pack 0 of every block | ... | k-pack 7 of every block |
//                                     | d | m | scales of half blocks (Q6_K) |     a number per block
//   a span of activations:            | d | d * sum of q | sum of q | sums of half blocks |     likewise
//                                     | k-pack 0 of every block | ... | k-pack 7 of every block |
//
// The sums of a block are exact and the partial sums those of block_rows.h, so the bits are the same.
// Internal to the units compiled once per instruction set.

namespace gpt::quant {
namespace {

// Bytes from the beginning of an expanded span.
constexpr int kExpandedScales = 32 * kSpan, kExpandedMinimums = 36 * kSpan, kExpandedHalfScales = 40 * kSpan;
constexpr int kExpandedBytes = 48 * kSpan;
static_assert(kExpandedBytes * kParts == kExpandedGroupBytes);

constexpr int kTileColumns = kExpandedColumns, kTileRows = 2, kTileElements = kTileColumns * kTileRows;
static_assert(kTileElements == kRegisters);

inline void quantize_block_transposed(const uint8_t* x, DType dtype, uint8_t* span, int block) {
  uint8_t bytes[32];
  const QuantizedBlock q =
      quantize_block(x, dtype, [&](int64_t j, IVec numbers) { store_i8(bytes + j, numbers); });
  store_scales(q, span, block);
  for (int h = 0; h < 2; ++h)
    __builtin_memcpy(span + kSpanHalfSums + 4 * (h * kSpan + block), &q.half_sum[h], 4);
  for (int g = 0; g < 8; ++g)
    __builtin_memcpy(span + kSpanData + 4 * (g * kSpan + block), bytes + 4 * g, 4);
}

void quantize_transposed(const QuantizeArgs& a) {
  const auto* x = static_cast<const uint8_t*>(a.x);
  auto* dst = static_cast<uint8_t*>(a.dst);
  const int64_t blocks = a.n / 32, groups = (blocks + kPartialSums - 1) / kPartialSums;
  if (blocks % kPartialSums != 0)
    __builtin_memset(dst + (groups - 1) * kRowActGroupBytes, 0, static_cast<size_t>(kRowActGroupBytes));
  for (int64_t b = 0; b < blocks; ++b) {
    quantize_block_transposed(x + b * 32 * size_of(a.dtype), a.dtype, dst + b / kSpan * kSpanBytes,
                              static_cast<int>(b % kSpan));
  }
}

template <DType dtype>
inline void expand_span(const uint8_t* p, uint8_t* dst) {
  IVec w[kRegisters];
  GPT_UNROLL
  for (int i = 0; i < kRegisters; ++i)
    w[i] = unpack<dtype>(p, i);
  transpose(w);
  GPT_UNROLL
  for (int i = 0; i < kRegisters; ++i)
    store_i(dst + i * kLanes * 4, in_block_order(w[i]));
  const SpanScales scales = load_scales<dtype>(p);
  store(reinterpret_cast<float*>(dst + kExpandedScales), scales.d);
  store(reinterpret_cast<float*>(dst + kExpandedMinimums), scales.m);
  if constexpr (dtype == DType::q6_k) {
    constexpr int64_t kBlock = block_size(dtype).bytes;
    for (int b = 0; b < kSpan; ++b) {
      for (int h = 0; h < 2; ++h) {
        const int32_t scale = static_cast<int8_t>(p[b / 8 * kBlock + 192 + b % 8 * 2 + h]);
        __builtin_memcpy(dst + kExpandedHalfScales + 4 * (h * kSpan + b), &scale, 4);
      }
    }
  }
}

template <DType dtype>
void expand_row(const uint8_t* w, int64_t blocks, uint8_t* dst) {
  constexpr int64_t kBytes = bytes_of<dtype>(kSpan);
  int64_t b = 0;
  for (; b + kSpan <= blocks; b += kSpan, w += kBytes, dst += kExpandedBytes)
    expand_span<dtype>(w, dst);
  if (b == blocks) return;
  alignas(64) uint8_t padded[kBytes] = {};
  __builtin_memcpy(padded, w, static_cast<size_t>(bytes_of<dtype>(blocks - b)));
  expand_span<dtype>(padded, dst);
}

// The exact products of a span of w with one of each row.
template <DType dtype, int first, int end>
inline void add_products(const uint8_t* const (&w)[kTileColumns], const uint8_t* const (&x)[kTileRows],
                         IVec (&sums)[kTileElements]) {
  GPT_UNROLL
  for (int g = first; g < end; ++g) {
    GPT_UNROLL
    for (int o = 0; o < kTileColumns; ++o) {
      const IVec v = load_i(w[o] + g * kLanes * 4);
      GPT_UNROLL
      for (int r = 0; r < kTileRows; ++r) {
        IVec& sum = sums[r * kTileColumns + o];
        sum = accumulate_dot4<dtype == DType::q8_0>(sum, v, x[r] + kSpanData + g * kLanes * 4);
      }
    }
  }
}

// Integer sums start from -zero point * sum of the activations.
template <DType dtype>
inline void start_sums(const uint8_t* const (&x)[kTileRows], int sums_at, IVec (&sums)[kTileElements]) {
  constexpr int kZeroBits = zero_point_bits<dtype>();
  GPT_UNROLL
  for (int r = 0; r < kTileRows; ++r) {
    IVec start = set1_i(0);
    if constexpr (kZeroBits >= 0) start = sub_i(start, shift_left_i<kZeroBits>(load_i(x[r] + sums_at)));
    GPT_UNROLL
    for (int o = 0; o < kTileColumns; ++o)
      sums[r * kTileColumns + o] = start;
  }
}

template <DType dtype>
inline void span_products(const uint8_t* const (&w)[kTileColumns], const uint8_t* const (&x)[kTileRows],
                          IVec (&sums)[kTileElements]) {
  if constexpr (dtype == DType::q6_k) {
    IVec half[kTileElements];
    start_sums<dtype>(x, kSpanHalfSums, sums);
    add_products<dtype, 0, 4>(w, x, sums);
    start_sums<dtype>(x, kSpanHalfSums + 4 * kSpan, half);
    add_products<dtype, 4, 8>(w, x, half);
    GPT_UNROLL
    for (int i = 0; i < kTileElements; ++i) {
      const uint8_t* scales = w[i % kTileColumns] + kExpandedHalfScales;
      sums[i] = add_i(mul_i(sums[i], load_i(scales)), mul_i(half[i], load_i(scales + 4 * kSpan)));
    }
  } else {
    start_sums<dtype>(x, kSpanSums, sums);
    add_products<dtype, 0, 8>(w, x, sums);
  }
}

template <DType dtype>
inline void add_tile_span(const uint8_t* const (&w)[kTileColumns], const uint8_t* const (&x)[kTileRows],
                          Vec (&acc)[kTileElements]) {
  IVec sums[kTileElements];
  span_products<dtype>(w, x, sums);
  const auto vector = [](const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); };
  GPT_UNROLL
  for (int i = 0; i < kTileElements; ++i) {
    const uint8_t *scales = w[i % kTileColumns], *act = x[i / kTileColumns];
    const Vec d = vector(scales + kExpandedScales) * vector(act + kSpanScales);
    acc[i] = fma(d, to_float(sums[i]), acc[i]);
    if constexpr (has_minimum(dtype)) {
      acc[i] = fma(vector(scales + kExpandedMinimums), vector(act + kSpanOffsets), acc[i]);
    }
  }
}

// Some outputs of up to two rows.
template <DType dtype>
inline void multiply_tile(const ExpandedRowsArgs& a, int64_t row) {
  const bool two = row + 1 < a.rows;
  const uint8_t* w[kTileColumns];
  for (int64_t o = 0; o < kTileColumns; ++o)
    w[o] = a.w + (o < a.outputs ? o : 0) * a.w_stride;
  const uint8_t* x[kTileRows] = {a.x + row * a.x_stride, a.x + (two ? row + 1 : row) * a.x_stride};
  Vec acc[kParts][kTileElements];
  clear(acc);
  const auto next = [&] {
    GPT_UNROLL
    for (int o = 0; o < kTileColumns; ++o)
      w[o] += kExpandedBytes;
    GPT_UNROLL
    for (int r = 0; r < kTileRows; ++r)
      x[r] += kSpanBytes;
  };
  const int64_t spans = (a.blocks + kSpan - 1) / kSpan;
  int64_t s = 0;
  for (; s + kParts <= spans; s += kParts) {
    GPT_UNROLL
    for (int part = 0; part < kParts; ++part, next())
      add_tile_span<dtype>(w, x, acc[part]);
  }
  if (s < spans) add_tile_span<dtype>(w, x, acc[0]);
  alignas(64) float sums[kLanes];
  store(sums, transpose_and_sum(acc));
  for (int64_t r = 0; r < (two ? 2 : 1); ++r) {
    for (int64_t o = 0; o < a.outputs; ++o) {
      const float sum = sums[transposed_lane(static_cast<int>(r * kTileColumns + o))];
      a.y[(row + r) * a.y_stride + o] = sum + (a.bias ? a.bias[o] : 0.0f);
    }
  }
}

void multiply_expanded(const ExpandedRowsArgs& a) {
  with_block_type(a.dtype, [&]<DType dtype>() {
    for (int64_t o = 0; o < a.outputs; ++o)
      expand_row<dtype>(a.source + o * a.source_stride, a.blocks, a.w + o * a.w_stride);
    for (int64_t row = 0; row < a.rows; row += kTileRows)
      multiply_tile<dtype>(a, row);
  });
}

}  // namespace
}  // namespace gpt::quant
