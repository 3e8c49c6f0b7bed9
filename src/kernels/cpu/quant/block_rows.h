#pragma once

#include "kernels/cpu/quant/block_vec.h"
#include "kernels/cpu/quant/kernels.h"

// Computes products of up to kRowsAtOnce rows of x with quantized rows in file layout. kernels/quant.h
// defines the exact result.
//
//   for every output, a row of w
//     for spans of kSpan blocks, unpacked to bytes in 8 registers
//       for rows of x
//         s = dot products of each block, exact; lane b holds the sum of block b
//         acc[row] += d_w d_x * s (+ m_w * (d_x * sum of q_x))    lane c holds partial sum c
//   for 8 outputs together
//     y = the partial sums added in order
//
//   a span of activations:   | d | d * sum of q | sum of q |       one value for each block
//                            | sums of half blocks |               in the order of half_block()
//                            | values of block 0 | values of block 1 | ...   or in halves: block_vec.h
//
// This header is only included by sources that are compiled once for each instruction set.

namespace gpt::quant {
namespace {

constexpr int kPartialSums = 16;
constexpr int kParts = kPartialSums / kLanes;  // number of vectors that hold the partial sums, one per lane

// Byte offsets in a span of activations.
constexpr int kSpanScales = 0, kSpanOffsets = 4 * kSpan, kSpanSums = 8 * kSpan, kSpanHalfSums = 12 * kSpan;
constexpr int kSpanData = 20 * kSpan, kSpanBytes = kSpanData + 32 * kSpan;
static_assert(kSpanBytes * kParts == kRowActGroupBytes);

// Stores three values of a block in a span: d, d * sum of q, and sum of q.
inline void store_scales(const QuantizedBlock& q, uint8_t* span, int block) {
  const int32_t sum = q.sum();
  const float offset = q.d * static_cast<float>(sum);
  __builtin_memcpy(span + kSpanScales + 4 * block, &q.d, 4);
  __builtin_memcpy(span + kSpanOffsets + 4 * block, &offset, 4);
  __builtin_memcpy(span + kSpanSums + 4 * block, &sum, 4);
}

// Returns the offset of value j of a block in a span, relative to kSpanData. The order of values depends on
// the dtype of w (block_vec.h).
inline int64_t number_at(DType w, int block, int64_t j) {
  if (!has_halves(w)) return block * 32 + j;
  const bool pairs = has_super_blocks(w);
  const int n = kHalvesPerRegister;
  const int64_t first = pairs ? 2 * (block / (2 * n)) + block % 2 : block / n;
  const int64_t place = pairs ? block % (2 * n) / 2 : block % n;
  return ((2 * first + j / 16) * n + place) * 16 + j % 16;
}

inline void quantize_for_rows(const QuantizeArgs& a, const uint8_t* x, uint8_t* span, int block) {
  const QuantizedBlock q = quantize_block(x, a.dtype, [&](int64_t j, IVec numbers) {
    store_i8(span + kSpanData + number_at(a.w, block, j), numbers);
  });
  store_scales(q, span, block);
  for (int k = 0; k < 2; ++k) {
    for (int l = 0; l < kLanes; ++l) {
      const int place = half_block(k, l);
      if (place / 2 == block)
        __builtin_memcpy(span + kSpanHalfSums + 4 * (k * kLanes + l), &q.half_sum[place % 2], 4);
    }
  }
}

void quantize_rows(const QuantizeArgs& a) {
  const auto* x = static_cast<const uint8_t*>(a.x);
  auto* dst = static_cast<uint8_t*>(a.dst);
  const int64_t blocks = a.n / 32, spans = (blocks + kPartialSums - 1) / kPartialSums * kParts;
  if (blocks % kPartialSums != 0) {
    const int64_t last = kRowActGroupBytes;
    __builtin_memset(dst + spans / kParts * last - last, 0, static_cast<size_t>(last));
  }
  for (int64_t b = 0; b < blocks; ++b)
    quantize_for_rows(a, x + b * 32 * size_of(a.dtype), dst + b / kSpan * kSpanBytes,
                      static_cast<int>(b % kSpan));
}

template <DType dtype>
inline SpanScales load_scales(const uint8_t* p) {
  const auto f16s_at = [&](int64_t at) {
    return f16s([&](int b) { return p + b * block_size(dtype).bytes + at; });
  };
  if constexpr (dtype == DType::q6_k) {
    constexpr int64_t kBlock = block_size(dtype).bytes;
    const uint8_t* next = kSpan == 16 ? p + kBlock : p;  // the second super-block of the span
    return {per_super_block(f16_at(p + 208), f16_at(next + 208)), zero()};
  } else if constexpr (dtype == DType::q4_k || dtype == DType::q5_k) {
    return super_block_scales<dtype>(p);
  } else if constexpr (dtype == DType::q4_1 || dtype == DType::q5_1) {
    return {f16s_at(0), f16s_at(2)};
  } else {
    return {f16s_at(0), zero()};
  }
}

// Returns the base-2 logarithm of the zero point that is added to make the values of w unsigned; -1 if there
// is no zero point.
constexpr int zero_point_bits(DType dtype) {
  switch (dtype) {
    case DType::q8_0:
    case DType::iq4_nl:
#if defined(GPT_SIMD_BF16)
      return 7;
#else
      return -1;
#endif
    case DType::q4_0:
      return 3;
    case DType::q5_0:
      return 4;
    case DType::q6_k:
      return 5;
    default:
      return -1;
  }
}

// Subtracts the contribution of the zero points from the sums of blocks.
template <DType dtype>
GPT_INLINE IVec without_zero_points(IVec sums, const uint8_t* x) {
  constexpr int kZeroBits = zero_point_bits(dtype);
  if constexpr (kZeroBits >= 0) return sub_i(sums, shift_left_i<kZeroBits>(load_i(x + kSpanSums)));
  return sums;
}

// Implements block_sums() for dtypes that are unpacked in halves.
template <DType dtype, int used>
GPT_INLINE IVec block_sums_of_halves(const IVec (&w)[kRegisters], const uint8_t* x) {
  constexpr bool kSigned = has_signs(dtype);
  IVec p[4];
  GPT_UNROLL
  for (int i = 0; i < 4; ++i) {
    const uint8_t* numbers = x + kSpanData + 2 * i * kLanes * 4;
    p[i] = set1_i(0);
    if (2 * i < used)
      p[i] = accumulate_dot4<kSigned>(dot4<kSigned>(w[2 * i], load_i(numbers)), w[2 * i + 1],
                                      load_i(numbers + kLanes * 4));
  }
  return without_zero_points<dtype>(
      halves_in_order<has_super_blocks(dtype)>(sum_quads(p[0], p[1], p[2], p[3])), x);
}

// Computes the exact dot products of the blocks in the first `used` registers with the activations at x.
template <DType dtype, int used>
GPT_INLINE IVec block_sums(const IVec (&w)[kRegisters], const IVec (&sub)[2], const uint8_t* x) {
  if constexpr (has_halves(dtype)) return block_sums_of_halves<dtype, used>(w, x);
  IVec p[kRegisters], t[2];
  GPT_UNROLL
  for (int i = 0; i < kRegisters; ++i)
    p[i] = i < used ? dot4<has_signs(dtype)>(w[i], load_i(x + kSpanData + i * kLanes * 4)) : set1_i(0);
  sum_half_blocks(p, t);
  if constexpr (dtype == DType::q6_k) {
    GPT_UNROLL
    for (int k = 0; k < 2; ++k) {
      const IVec zero_points =
          shift_left_i<zero_point_bits(dtype)>(load_i(x + kSpanHalfSums + k * kLanes * 4));
      t[k] = mul_i(sub_i(t[k], zero_points), sub[k]);
    }
    return sum_blocks(t[0], t[1]);
  } else {
    return without_zero_points<dtype>(sum_blocks(t[0], t[1]), x);
  }
}

// L2 prefetch distance in w, in bytes. Prefetching past the end of a row is useful, because the next row
// follows. The hardware prefetcher would stop at page boundaries, and memory-mapped files have small pages.
template <DType dtype>
constexpr int kAhead = has_super_blocks(dtype) ? 9216 : 6144;
template <DType dtype, int64_t bytes = bytes_of<dtype>(kSpan)>
GPT_INLINE void prefetch_ahead(const uint8_t* p) {
  GPT_UNROLL
  for (int64_t i = 0; i < bytes; i += 64)
    __builtin_prefetch(p + kAhead<dtype> + i, 0, 2);
}

// Multiplies the span of w at p with R rows of x, and adds the products to the accumulators of these rows.
// The blocks of the span are in the first `used` registers.
template <DType dtype, int R, int used = kRegisters>
GPT_INLINE void add_span(const uint8_t* p, const SpanScales& scales, const uint8_t* x, int64_t x_stride,
                         Vec (&acc)[R]) {
  IVec w[kRegisters], sub[2] = {set1_i(0), set1_i(0)};
  GPT_UNROLL
  for (int i = 0; i < used; ++i) {
    if constexpr (!has_halves(dtype)) {
      w[i] = unpack<dtype>(p, i);
    } else if (i % 2 == 0) {
      unpack_halves<dtype>(p, i / 2, w[i], w[i + 1]);
    }
    if constexpr (dtype == DType::iq4_nl) w[i] = iq4_numbers(w[i]);
  }
  if constexpr (dtype == DType::q6_k) {
    sub[0] = half_block_scales(p, 0);
    sub[1] = half_block_scales(p, 1);
  }
  GPT_UNROLL
  for (int r = 0; r < R; ++r, x += x_stride) {
    const IVec sums = block_sums<dtype, used>(w, sub, x);
    const Vec d = scales.d * load(reinterpret_cast<const float*>(x + kSpanScales));
    acc[r] = fma(d, to_float(sums), acc[r]);
    if constexpr (has_minimum(dtype)) {
      const Vec offsets = load(reinterpret_cast<const float*>(x + kSpanOffsets));
      acc[r] = fma(scales.m, offsets, acc[r]);
    }
  }
}

// Adds the last `rest` blocks of a row, which are fewer than a span. Memory after these blocks, up to `end`,
// is read but has no effect, because its activations are 0 and its scales are set to 0.
template <DType dtype, int R>
GPT_INLINE void add_rest(const uint8_t* w, const uint8_t* end, int64_t rest, const uint8_t* x,
                         int64_t x_stride, Vec (&acc)[R]) {
  constexpr int64_t kBytes = bytes_of<dtype>(kSpan);
  prefetch_ahead<dtype, kBytes / 2>(w);
  alignas(64) uint8_t padded[kBytes];
  if (end - w < kBytes) {
    __builtin_memset(padded, 0, kBytes);
    __builtin_memcpy(padded, w, static_cast<size_t>(bytes_of<dtype>(rest)));
    w = padded;
  }
  const Mask there = first_lanes(rest);
  const SpanScales all = load_scales<dtype>(w);
  const SpanScales scales = {select(there, all.d, zero()), select(there, all.m, zero())};
  if (2 * rest <= kSpan) return add_span<dtype, R, kRegisters / 2>(w, scales, x, x_stride, acc);
  add_span<dtype, R>(w, scales, x, x_stride, acc);
}

// Computes the partial sums of the dot products of one row of w with R rows of x. Memory up to `end` must be
// readable.
template <DType dtype, int R>
inline void multiply_row(const BlockRowsArgs& a, const uint8_t* w, const uint8_t* end,
                         Vec (&acc)[kParts][R]) {
  constexpr int64_t kBytes = bytes_of<dtype>(kSpan);
  const int64_t spans = a.blocks / kSpan, rest = a.blocks % kSpan;
  clear(acc);
  const uint8_t* x = a.x;
  int64_t s = 0;
  for (; s + kParts <= spans; s += kParts) {
    GPT_UNROLL
    for (int part = 0; part < kParts; ++part, w += kBytes, x += kSpanBytes) {
      prefetch_ahead<dtype>(w);
      add_span<dtype, R>(w, load_scales<dtype>(w), x, a.x_stride, acc[part]);
    }
  }
  GPT_UNROLL
  for (int part = 0; part < kParts; ++part) {
    if (s < spans) {
      prefetch_ahead<dtype>(w);
      add_span<dtype, R>(w, load_scales<dtype>(w), x, a.x_stride, acc[part]);
      w += kBytes;
      x += kSpanBytes;
    } else if (s == spans && rest > 0) {
      add_rest<dtype, R>(w, end, rest, x, a.x_stride, acc[part]);
    }
    ++s;
  }
}

// Multiplies R rows of x with all rows of w. The partial sums of 8 outputs are reduced together.
template <DType dtype, int R>
void multiply_rows(const BlockRowsArgs& a) {
  const uint8_t *w = a.w, *end = w + (a.outputs - 1) * a.w_stride + bytes_of<dtype>(a.blocks);
  for (int64_t first = 0; first < a.outputs; first += kRegisters) {
    const int64_t outputs = a.outputs - first < kRegisters ? a.outputs - first : kRegisters;
    Vec partial_sums[R][kParts][kRegisters] = {};
    for (int64_t o = 0; o < outputs; ++o, w += a.w_stride) {
      Vec acc[kParts][R];
      multiply_row<dtype, R>(a, w, end, acc);
      GPT_UNROLL
      for (int i = 0; i < kParts * R; ++i)
        partial_sums[i % R][i / R][o] = acc[i / R][i % R];
    }
    for (int r = 0; r < R; ++r) {
      alignas(64) float sums[kLanes];
      store(sums, transpose_and_sum(partial_sums[r]));
      float* y = a.y + r * a.y_stride + first;
      for (int64_t o = 0; o < outputs; ++o)
        y[o] = sums[transposed_lane(static_cast<int>(o))] + (a.bias ? a.bias[first + o] : 0.0f);
    }
  }
}

template <DType dtype, int R = kRowsAtOnce>
void multiply_up_to(const BlockRowsArgs& a) {
  if constexpr (R > 1) {
    if (a.rows < R) return multiply_up_to<dtype, R - 1>(a);
  }
  multiply_rows<dtype, R>(a);
}

// Calls fn.operator()<dtype>() with the quantized dtype as a template argument.
template <class F>
inline void with_block_type(DType dtype, F fn) {
  switch (dtype) {
    case DType::q8_0:
      return fn.template operator()<DType::q8_0>();
    case DType::q4_0:
      return fn.template operator()<DType::q4_0>();
    case DType::q4_1:
      return fn.template operator()<DType::q4_1>();
    case DType::q5_0:
      return fn.template operator()<DType::q5_0>();
    case DType::q5_1:
      return fn.template operator()<DType::q5_1>();
    case DType::iq4_nl:
      return fn.template operator()<DType::iq4_nl>();
    case DType::q4_k:
      return fn.template operator()<DType::q4_k>();
    case DType::q5_k:
      return fn.template operator()<DType::q5_k>();
    default:
      return fn.template operator()<DType::q6_k>();
  }
}

void multiply_rows(const BlockRowsArgs& a) {
  with_block_type(a.dtype, [&]<DType dtype>() { multiply_up_to<dtype>(a); });
}

}  // namespace
}  // namespace gpt::quant
