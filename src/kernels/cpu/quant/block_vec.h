#pragma once

#include "kernels/cpu/quant/quantize.h"
#include "kernels/quant.h"

// Loads quantized rows in ggml's block formats for the kernels of block_rows.h and block_panels.h. A row is
// read in spans of kSpan blocks of 32 values, which are unpacked to bytes in 8 registers:
//
//                  AVX2, kSpan = 8             AVX-512, kSpan = 16
//   register 0   | block 0, 32 bytes |       | block 0, 32 bytes | block 1, 32 bytes |
//   register 1   | block 1           |       | block 2           | block 3           |
//   ...                                      ...
//   register 7   | block 7           |       | block 14          | block 15          |
//
// A span covers one super-block of 256 values with AVX2 and two with AVX-512. This header is only included by
// sources that are compiled once for each instruction set.

namespace gpt::quant {
namespace {

constexpr int kRegisters = 8;
constexpr int kSpan = kRegisters * kLanes / 8;

// Returns true if rows of this dtype consist of super-blocks of 256 elements. The function compares enum
// values instead of calling block_size(), whose table would become a weak symbol in these object files if
// dtype is not a constant.
constexpr bool has_super_blocks(DType dtype) {
  return dtype >= DType::q4_k;
}
static_assert(block_size(DType::iq4_nl).elements == 32 && block_size(DType::q4_k).elements == 256);

// Returns true if the values of this dtype are signed bytes. Values of all other dtypes are stored unsigned,
// with fewer bits.
constexpr bool has_signs(DType dtype) {
  return dtype == DType::q8_0 || dtype == DType::iq4_nl;
}

// Returns the size in bytes of `blocks` blocks of 32 values, which may form super-blocks.
template <DType dtype>
constexpr int64_t bytes_of(int64_t blocks) {
  return blocks * 32 / block_size(dtype).elements * block_size(dtype).bytes;
}

// For few rows of x, dtypes with has_halves() are unpacked differently. The low and high halves of a block
// stay in separate registers, so a register holds halves of more blocks:
//
//                  AVX2                        AVX-512
//   register 0   | first half of blocks 0, 1 | | first half of blocks 0, 1, 2, 3 |
//   register 1   | second half               | | second half                     |
//   register 2   | first half of blocks 2, 3 | | first half of blocks 4, 5, 6, 7 |
//   ...
//
// In super-blocks, two consecutive blocks share bytes. Even blocks (0, 2, ...) come first, then odd blocks
// (1, 3, ...):
//
//   register 0   | first half of blocks 0, 2 | | first half of blocks 0, 2, 4, 6 |
//   register 1   | second half               | | second half                     |
//   register 2   | first half of blocks 1, 3 | | first half of blocks 1, 3, 5, 7 |
//   ...
constexpr int kHalvesPerRegister = kLanes / 4;

// Scales and minimums of the blocks of a span.
struct SpanScales {
  Vec d, m;
};

inline __m128i load128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
inline __m256i load256(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

inline IVec and_bytes(IVec v, int mask) {
  return and_i(v, set1_i8(mask));
}

inline float f16_at(const uint8_t* p) {
  return _cvtsh_ss(load_as<uint16_t>(p));
}

// For every group of four lanes, returns four values: the sum of that group's lanes in a, in b, in c and in
// d.
GPT_INLINE IVec sum_quads(IVec a, IVec b, IVec c, IVec d) {
  const IVec ab = add_i(unpack_low32(a, b), unpack_high32(a, b));
  const IVec cd = add_i(unpack_low32(c, d), unpack_high32(c, d));
  return add_i(unpack_low64(ab, cd), unpack_high64(ab, cd));
}
// Computes the sums of the results of dot4() over half blocks of 16 values, in the order of half_block().
GPT_INLINE void sum_half_blocks(const IVec (&p)[kRegisters], IVec (&t)[2]) {
  t[0] = sum_quads(p[0], p[1], p[2], p[3]);
  t[1] = sum_quads(p[4], p[5], p[6], p[7]);
}

// Indices of bytes in a super-block's header (kernels/quant.h). low_scale_bytes() selects the bytes with the
// low bits of s[0] to s[7] and m[0] to m[7]. high_scale_bytes() selects the bytes whose two highest bits are
// the high bits of s[4] to s[7] and m[4] to m[7].
inline __m128i low_scale_bytes() {
  return _mm_setr_epi8(4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
}
inline __m128i high_scale_bytes() {
  return _mm_setr_epi8(-1, -1, -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11);
}
// Right shifts that move the low bits into place, and masks that select them.
inline __m128i scale_shifts() {
  return _mm_setr_epi32(0, 0, 0, 4);
}
inline __m128i scale_masks() {
  return _mm_setr_epi32(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f);
}

inline IVec add_i16(IVec a, IVec b) {
  return GPT_MM(add_epi16)(a, b);
}
// Adds the products of two adjacent bytes in 16 bits. The bytes of w are unsigned.
inline IVec dot2(IVec w, IVec q) {
  return GPT_MM(maddubs_epi16)(w, q);
}

// Converts signed bytes to the format that products expect: q + 128 if the instruction set multiplies them as
// unsigned bytes, otherwise q.
inline IVec signed_numbers(IVec q) {
#if defined(GPT_SIMD_BF16)
  return xor_i(q, set1_i8(0x80));
#else
  return q;
#endif
}
// Looks up the IQ4_NL values whose indices are the bytes of q, in the same format as signed_numbers().
inline IVec iq4_numbers(IVec q) {
#if defined(GPT_SIMD_AVX512)
  const IVec table = _mm512_broadcast_i32x4(load128(kIq4Numbers));
#else
  const IVec table = _mm256_broadcastsi128_si256(load128(kIq4Numbers));
#endif
  return GPT_MM(shuffle_epi8)(signed_numbers(table), q);
}

#if defined(GPT_SIMD_AVX512)

// Loads 16 bytes at each of the addresses at(0), at(1), ... into one group of four lanes each.
template <class At>
GPT_INLINE IVec quarters(At at) {
  const auto pair = [&](int i) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(at(i))), load128(at(i + 1)), 1);
  };
  return _mm512_inserti64x4(_mm512_castsi256_si512(pair(0)), pair(2), 1);
}
// Loads the fp16 values at addresses at(0), at(1), ... A gather instruction would take three times as long.
template <class At>
GPT_INLINE Vec f16s(At at) {
  const auto d = [&](int i) { return load_as<int16_t>(at(i)); };
  return _mm512_cvtph_ps(_mm256_setr_epi16(d(0), d(1), d(2), d(3), d(4), d(5), d(6), d(7), d(8), d(9), d(10),
                                           d(11), d(12), d(13), d(14), d(15)));
}
// Converts the lower 16 bits of every lane from fp16 to fp32.
inline Vec low_f16(IVec v) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

// Returns a register with a in the lower half and b in the upper half.
inline IVec concat(__m256i a, __m256i b) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}
inline IVec broadcast256(const uint8_t* p) {
  return _mm512_broadcast_i64x4(load256(p));
}
// Rotates the 64-bit elements right, by `low` bits in the lower half of the register and by `high` bits in
// the upper half. The caller must mask off bits that cross bytes.
inline IVec shift_halves_right(IVec v, int low, int high) {
  const int64_t l = low & 63, h = high & 63;
  return _mm512_rorv_epi64(v, _mm512_setr_epi64(l, l, l, l, h, h, h, h));
}
// Returns v | (bits & mask), where the mask applies to every byte.
inline IVec or_masked(IVec v, IVec bits, int mask) {
  return _mm512_ternarylogic_epi64(v, bits, set1_i8(mask), 0xf8);
}

// Loads register i of the span at p, for Q8_0 and Q6_K.
template <DType dtype>
GPT_INLINE IVec unpack(const uint8_t* p, int i) {
  constexpr int64_t kBlock = block_size(dtype).bytes;
  if constexpr (dtype == DType::q8_0)
    return signed_numbers(concat(load256(p + 2 * i * kBlock + 2), load256(p + (2 * i + 1) * kBlock + 2)));
  p += i / 4 * kBlock + i % 4 / 2 * 64;
  const IVec high = broadcast256(p + 128 - i % 4 / 2 * 32), low = load_i(p);
  if (i % 2 == 0) return or_masked(and_bytes(low, 15), shift_halves_right(high, -4, -2), 48);
  return or_masked(and_bytes(shift_right_i16<4>(low), 15), shift_halves_right(high, 0, 2), 48);
}

// Loads registers 2 i and 2 i + 1 of the span at p in halves, for super-blocks.
template <DType dtype>
GPT_INLINE void unpack_paired_halves(const uint8_t* p, int i, IVec& first, IVec& second) {
  constexpr int64_t kBlock = block_size(dtype).bytes;
  p += i / 2 * kBlock;
  const int odd = i % 2;
  const IVec a = load_i(p + kBlock - 128), b = load_i(p + kBlock - 64);
  first = _mm512_shuffle_i32x4(a, b, 0x88);
  second = _mm512_shuffle_i32x4(a, b, 0xdd);
  first = and_bytes(odd ? shift_right_i16<4>(first) : first, 15);
  second = and_bytes(odd ? shift_right_i16<4>(second) : second, 15);
  if constexpr (dtype == DType::q5_k) {
    const auto fifth = [&](const uint8_t* high) {
      const auto shift = [&](int block) { return int64_t{(block + odd - 4) & 63}; };
      return _mm512_rorv_epi64(
          _mm512_broadcast_i32x4(load128(high)),
          _mm512_setr_epi64(shift(0), shift(0), shift(2), shift(2), shift(4), shift(4), shift(6), shift(6)));
    };
    first = or_masked(first, fifth(p + 16), 16);
    second = or_masked(second, fifth(p + 32), 16);
  }
}
// Loads registers 2 i and 2 i + 1 of the span at p in halves, for any dtype with has_halves().
template <DType dtype>
GPT_INLINE void unpack_halves(const uint8_t* p, int i, IVec& first, IVec& second) {
  if constexpr (has_super_blocks(dtype)) return unpack_paired_halves<dtype>(p, i, first, second);
  constexpr int64_t kBlock = block_size(dtype).bytes, kData = kBlock - 16;
  p += kHalvesPerRegister * i * kBlock + kData;
  const auto pair = [&](const uint8_t* a) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(a)), load128(a + kBlock), 1);
  };
  const IVec v = concat(pair(p), pair(p + 2 * kBlock));
  first = and_bytes(v, 15);
  second = and_bytes(shift_right_i16<4>(v), 15);
  if constexpr (dtype == DType::q5_0 || dtype == DType::q5_1) {
    const auto fifth = [&](int half) {
      uint64_t bits = 0;
      for (int b = 0; b < kHalvesPerRegister; ++b)
        bits |= uint64_t{load_as<uint16_t>(p + b * kBlock - 4 + 2 * half)} << (16 * b);
      return _cvtu64_mask64(bits);
    };
    first = _mm512_mask_add_epi8(first, fifth(0), first, set1_i8(16));
    second = _mm512_mask_add_epi8(second, fifth(1), second, set1_i8(16));
  }
}
// Reorders the result of sum_quads() over registers of halves, so that lane b holds the sum of block b.
template <bool paired>
GPT_INLINE IVec halves_in_order(IVec v) {
  if (paired)
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15),
                                    v);
  return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
}

// Returns a vector with the sum of 4 adjacent products in every lane.
template <bool is_signed>
inline IVec dot4(IVec w, IVec q) {
#if defined(GPT_SIMD_BF16)
  return _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, q);
#else
  const IVec ones = set1_i16(1);
  if constexpr (is_signed) {
    const IVec signed_q = _mm512_mask_sub_epi8(q, _mm512_movepi8_mask(w), _mm512_setzero_si512(), q);
    return madd_i16(_mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_q), ones);
  } else {
    return madd_i16(dot2(w, q), ones);
  }
#endif
}

// Returns the half block whose sum is in lane l of t[k] after sum_half_blocks(). Half block 2 b + h is half h
// of block b.
inline int half_block(int k, int l) {
  return 2 * (8 * k + 2 * (l % 4) + l / 8) + l / 4 % 2;
}
// Computes the sums of whole blocks from the sums of half blocks, in the order of blocks.
inline IVec sum_blocks(IVec a, IVec b) {
  const IVec sum = add_i(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
  return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15),
                                  sum);
}

// Returns a vector with `a` in the lanes of the first super-block and `b` in the lanes of the second one.
inline Vec per_super_block(float a, float b) {
  return _mm512_insertf32x8(_mm512_set1_ps(a), _mm256_set1_ps(b), 1);
}
// Loads the scales and minimums of a span of Q4_K or Q5_K, which are stored in 6 bits.
template <DType dtype>
GPT_INLINE SpanScales super_block_scales(const uint8_t* p) {
  const __m128i first = load128(p), second = load128(p + block_size(dtype).bytes);
  const __m256i headers = _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
  const auto both = [](__m128i v) { return _mm256_broadcastsi128_si256(v); };
  const __m256i low = _mm256_and_si256(
      _mm256_srlv_epi32(_mm256_shuffle_epi8(headers, both(low_scale_bytes())), both(scale_shifts())),
      both(scale_masks()));
  const __m256i high = _mm256_srli_epi32(_mm256_shuffle_epi8(headers, both(high_scale_bytes())), 2);
  const __m256i bytes = _mm256_ternarylogic_epi32(low, high, _mm256_set1_epi8(0x30), 0xf8);
  const __m256i apart = _mm256_permute4x64_epi64(bytes, 0xd8);
  const IVec scales = _mm512_cvtepu8_epi32(_mm256_castsi256_si128(apart));
  const IVec minimums = _mm512_cvtepu8_epi32(_mm256_extracti128_si256(apart, 1));
  const __m128i sign_of_minimums = _mm_set1_epi32(static_cast<int32_t>(0x80000000));
  const Vec d = _mm512_castps128_ps512(
      _mm_cvtph_ps(_mm_xor_si128(_mm_unpacklo_epi32(first, second), sign_of_minimums)));
  return {_mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2), d) *
              to_float(scales),
          _mm512_permutexvar_ps(_mm512_setr_epi32(1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3), d) *
              to_float(minimums)};
}
// Returns the scales of the half blocks of super-block k, in the order of half_block().
inline IVec half_block_scales(const uint8_t* p, int k) {
  const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_cvtepi8_epi32(_mm_shuffle_epi8(load128(p + k * block_size(DType::q6_k).bytes + 192), order));
}

// Transposes a span. Register g receives k-pack g (4 bytes) of every block; block b is in lane
// transposed_lane(b).
__attribute__((always_inline)) inline void transpose_span(IVec (&v)[kRegisters]) {
  IVec t[2][4];
  GPT_UNROLL
  for (int i = 0; i < 4; ++i) {
    t[0][i] = v[i];
    t[1][i] = v[4 + i];
  }
  transpose4(t[0]);
  transpose4(t[1]);
  GPT_UNROLL
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm512_shuffle_i32x4(t[0][i], t[1][i], 0x88);
    v[i + 4] = _mm512_shuffle_i32x4(t[0][i], t[1][i], 0xdd);
  }
}
// Returns the lane that holds sum i after transpose_and_sum().
inline int transposed_lane(int i) {
  return i / 4 * 8 + i % 4;
}
// Computes the sum of the 16 lanes of each of 8 accumulators, in order from the first lane to the last.
__attribute__((always_inline)) inline Vec transpose_and_sum(const Vec (&acc)[1][kRegisters]) {
  IVec t[kRegisters];
  GPT_UNROLL
  for (int i = 0; i < kRegisters; ++i)
    t[i] = bits_of(acc[0][i]);
  transpose_span(t);  // now lanes 0 to 3 and 8 to 11 hold input lanes 0 to 7; all other lanes hold input
                      // lanes 8 to 15
  Vec sum = as_floats(t[0]);
  GPT_UNROLL
  for (int i = 1; i < kRegisters; ++i)
    sum = sum + as_floats(t[i]);
  GPT_UNROLL
  for (int i = 0; i < kRegisters; ++i)
    sum = sum + as_floats(_mm512_shuffle_i32x4(t[i], t[i], 0xf5));
  return sum;
}
// Adds 4 adjacent products to every lane of `sum`.
template <bool is_signed>
inline IVec accumulate_dot4(IVec sum, IVec w, IVec q) {
#if defined(GPT_SIMD_BF16)
  return _mm512_dpbusd_epi32(sum, w, q);
#else
  return add_i(sum, dot4<is_signed>(w, q));
#endif
}

#else

template <class At>
GPT_INLINE IVec quarters(At at) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(at(0))), load128(at(1)), 1);
}
template <class At>
GPT_INLINE Vec f16s(At at) {
  const auto d = [&](int i) { return load_as<int16_t>(at(i)); };
  return _mm256_cvtph_ps(_mm_setr_epi16(d(0), d(1), d(2), d(3), d(4), d(5), d(6), d(7)));
}
inline Vec low_f16(IVec v) {
  const IVec low = and_i(v, set1_i(0xffff));
  const IVec packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}
inline IVec or_masked(IVec v, IVec bits, int mask) {
  return or_i(v, and_bytes(bits, mask));
}
// Returns a vector whose byte i is 16 if bit i is set, else 0.
inline IVec fifth_bits(uint32_t bits) {
  const IVec bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int32_t>(bits)),
                                         _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2,
                                                          2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
  const IVec mask = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  return and_bytes(_mm256_cmpeq_epi8(and_i(bytes, mask), mask), 16);
}
// Shifts right by n bits, or left if n is negative. The caller must mask off bits that cross bytes.
inline IVec shift_bits(IVec v, int n) {
  return n < 0 ? _mm256_slli_epi16(v, -n) : _mm256_srli_epi16(v, n);
}

template <DType dtype>
GPT_INLINE IVec unpack(const uint8_t* p, int i) {
  if constexpr (dtype == DType::q8_0) return load256(p + i * block_size(dtype).bytes + 2);
  const int half = i / 4, b = i % 4;
  const IVec low = shift_bits(load256(p + half * 64 + b % 2 * 32), b / 2 * 4);
  const IVec high = shift_bits(load256(p + 128 + half * 32), 2 * b - 4);
  return or_masked(and_bytes(low, 15), high, 48);
}

template <DType dtype>
GPT_INLINE void unpack_paired_halves(const uint8_t* p, int i, IVec& first, IVec& second) {
  constexpr int64_t kBlock = block_size(dtype).bytes;
  const int odd = i % 2;
  const uint8_t* data = p + kBlock - 128 + i / 2 * 64;
  const IVec a = load256(data), b = load256(data + 32);
  first = _mm256_permute2x128_si256(a, b, 0x20);
  second = _mm256_permute2x128_si256(a, b, 0x31);
  first = and_bytes(odd ? shift_right_i16<4>(first) : first, 15);
  second = and_bytes(odd ? shift_right_i16<4>(second) : second, 15);
  if constexpr (dtype == DType::q5_k) {
    const auto fifth = [&](const uint8_t* high) {
      const IVec bits = _mm256_broadcastsi128_si256(load128(high));
      const IVec shifted =
          i < 2 ? _mm256_sllv_epi64(bits, _mm256_setr_epi64x(4 - odd, 4 - odd, 2 - odd, 2 - odd))
                : _mm256_srlv_epi64(bits, _mm256_setr_epi64x(odd, odd, 2 + odd, 2 + odd));
      return and_bytes(shifted, 16);
    };
    first = or_i(first, fifth(p + 16));
    second = or_i(second, fifth(p + 32));
  }
}
template <DType dtype>
GPT_INLINE void unpack_halves(const uint8_t* p, int i, IVec& first, IVec& second) {
  if constexpr (has_super_blocks(dtype)) return unpack_paired_halves<dtype>(p, i, first, second);
  constexpr int64_t kBlock = block_size(dtype).bytes, kData = kBlock - 16;
  p += kHalvesPerRegister * i * kBlock + kData;
  const IVec v = _mm256_inserti128_si256(_mm256_castsi128_si256(load128(p)), load128(p + kBlock), 1);
  first = and_bytes(v, 15);
  second = and_bytes(shift_right_i16<4>(v), 15);
  if constexpr (dtype == DType::q5_0 || dtype == DType::q5_1) {
    const auto fifth = [&](int h) {
      return fifth_bits(load_as<uint16_t>(p - 4 + 2 * h) | uint32_t{load_as<uint16_t>(p + kBlock - 4 + 2 * h)}
                                                               << 16);
    };
    first = or_i(first, fifth(0));
    second = or_i(second, fifth(1));
  }
}
template <bool paired>
GPT_INLINE IVec halves_in_order(IVec v) {
  if (paired) return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7));
  return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

template <bool is_signed>
inline IVec dot4(IVec w, IVec q) {
  const IVec ones = set1_i16(1);
  if constexpr (is_signed) {
    return madd_i16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w)), ones);
  } else {
    return madd_i16(dot2(w, q), ones);
  }
}

inline int half_block(int k, int l) {
  return 2 * (4 * k + l % 4) + l / 4;
}
inline IVec sum_blocks(IVec a, IVec b) {
  return add_i(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

// With AVX2, a span is one super-block.
inline Vec per_super_block(float a, float) {
  return _mm256_set1_ps(a);
}
template <DType dtype>
GPT_INLINE SpanScales super_block_scales(const uint8_t* p) {
  const __m128i header = load128(p);
  const __m128i low = _mm_and_si128(
      _mm_srlv_epi32(_mm_shuffle_epi8(header, low_scale_bytes()), scale_shifts()), scale_masks());
  const __m128i high = _mm_srli_epi32(_mm_shuffle_epi8(header, high_scale_bytes()), 2);
  const __m128i bytes = _mm_or_si128(low, _mm_and_si128(high, _mm_set1_epi8(0x30)));
  const __m128i sign_of_minimums = _mm_set1_epi32(static_cast<int32_t>(0x80000000));
  const __m128 d = _mm_cvtph_ps(_mm_xor_si128(header, sign_of_minimums));
  return {
      _mm256_broadcastss_ps(d) * to_float(_mm256_cvtepu8_epi32(bytes)),
      _mm256_broadcastss_ps(_mm_movehdup_ps(d)) * to_float(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}
inline IVec half_block_scales(const uint8_t* p, int k) {
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  const __m128i scales = _mm_shuffle_epi8(load128(p + 192), order);
  return _mm256_cvtepi8_epi32(k == 0 ? scales : _mm_srli_si128(scales, 8));
}

__attribute__((always_inline)) inline void transpose_span(IVec (&v)[kRegisters]) {
  IVec t[2][4];
  GPT_UNROLL
  for (int i = 0; i < 4; ++i) {
    t[0][i] = v[i];
    t[1][i] = v[4 + i];
  }
  transpose4(t[0]);
  transpose4(t[1]);
  GPT_UNROLL
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2x128_si256(t[0][i], t[1][i], 0x20);
    v[i + 4] = _mm256_permute2x128_si256(t[0][i], t[1][i], 0x31);
  }
}
inline int transposed_lane(int i) {
  return i;
}
__attribute__((always_inline)) inline Vec transpose_and_sum(const Vec (&acc)[2][kRegisters]) {
  Vec sum = zero();
  for (int part = 0; part < 2; ++part) {
    IVec t[kRegisters];
    for (int i = 0; i < kRegisters; ++i)
      t[i] = bits_of(acc[part][i]);
    transpose_span(t);
    for (int i = 0; i < kRegisters; ++i) {
      const Vec acc = as_floats(t[i]);
      sum = part == 0 && i == 0 ? acc : sum + acc;
    }
  }
  return sum;
}
template <bool is_signed>
inline IVec accumulate_dot4(IVec sum, IVec w, IVec q) {
  return add_i(sum, dot4<is_signed>(w, q));
}

#endif

}  // namespace
}  // namespace gpt::quant
