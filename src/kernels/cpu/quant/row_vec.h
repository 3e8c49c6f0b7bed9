#pragma once

// How the kernels of row_product.inc read rows of ggml's blocks: `kSpan` blocks of 32 at a time, as bytes in
// 8 registers. Included only by sources that are compiled once per instruction set, after quant_vec.h.

namespace gpt::quant {
namespace {

// Whole registers of bytes: 1 block (AVX2) or 2 (AVX-512) each.
constexpr int kRegisters = 8;
constexpr int kSpan = kRegisters * kLanes / 8;

inline IVec and_bytes(IVec v, int mask) {
#if defined(GPT_SIMD_AVX512)
  return _mm512_and_si512(v, _mm512_set1_epi8(static_cast<char>(mask)));
#else
  return _mm256_and_si256(v, _mm256_set1_epi8(static_cast<char>(mask)));
#endif
}

inline float half_at(const uint8_t* p) {
  return _cvtsh_ss(load_as<uint16_t>(p));
}

#if defined(GPT_SIMD_AVX512)

inline __m128i load128(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline __m256i load256(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
// a in the lower, b in the upper half.
inline IVec concat(__m256i a, __m256i b) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}
inline IVec both_halves(const uint8_t* p) {
  return _mm512_broadcast_i64x4(load256(p));
}
// Lower half shifted right by `low` bits, upper by `high`; what crosses bytes is masked off by the caller.
inline IVec rotate_halves(IVec v, int low, int high) {
  const int64_t l = low & 63, h = high & 63;
  return _mm512_rorv_epi64(v, _mm512_setr_epi64(l, l, l, l, h, h, h, h));
}
// v + (bits & mask), where v has none of them.
inline IVec add_bits(IVec v, IVec bits, int mask) {
  return _mm512_ternarylogic_epi64(v, bits, _mm512_set1_epi8(static_cast<char>(mask)), 0xf8);
}

// Two blocks of 16 bytes of halves at a and b.
inline IVec unpack_halves(const uint8_t* a, const uint8_t* b) {
  IVec v = _mm512_broadcast_i32x4(load128(a));
  v = _mm512_mask_broadcast_i32x4(v, 0xff00, load128(b));
  v = _mm512_srlv_epi64(v, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
  return and_bytes(v, 15);
}

// Register i of the span at p. Q8_0 gives q + 128 where bytes are multiplied unsigned.
template <DType dtype>
inline IVec unpack(const uint8_t* p, int i) {
  constexpr int64_t kBlock = block_size(dtype).bytes;
  if constexpr (dtype == DType::q8_0) {
    const IVec q = concat(load256(p + 2 * i * kBlock + 2), load256(p + (2 * i + 1) * kBlock + 2));
#if defined(GPT_SIMD_BF16)
    return _mm512_xor_si512(q, _mm512_set1_epi8(static_cast<char>(0x80)));
#else
    return q;
#endif
  } else if constexpr (block_size(dtype).elements == 32) {
    constexpr int64_t kData = kBlock - 16;
    const uint8_t *a = p + 2 * i * kBlock, *b = a + kBlock;
    const IVec v = unpack_halves(a + kData, b + kData);
    if constexpr (dtype == DType::q5_0 || dtype == DType::q5_1) {
      const uint64_t bits = load_as<uint32_t>(a + kData - 4) | uint64_t{load_as<uint32_t>(b + kData - 4)}
                                                                   << 32;
      return _mm512_mask_add_epi8(v, _cvtu64_mask64(bits), v, _mm512_set1_epi8(16));
    } else {
      return v;
    }
  } else if constexpr (dtype == DType::q6_k) {
    p += i / 4 * kBlock + i % 4 / 2 * 64;
    const uint8_t* high = p + 128 - i % 4 / 2 * 32;
    const IVec low = load_bytes(p);
    if (i % 2 == 0) return add_bits(and_bytes(low, 15), rotate_halves(both_halves(high), -4, -2), 48);
    return add_bits(and_bytes(shift_right16<4>(low), 15), rotate_halves(both_halves(high), 0, 2), 48);
  } else {
    p += i / 4 * kBlock;
    const int pair = i % 4;
    const uint8_t* data = p + kBlock - 128 + pair * 32;
    const IVec v = and_bytes(rotate_halves(both_halves(data), 0, 4), 15);
    if constexpr (dtype == DType::q4_k) return v;
    return add_bits(v, rotate_halves(both_halves(p + 16), 2 * pair - 4, 2 * pair - 3), 16);
  }
}

// 4 products side by side summed, in each of 16 lanes: 8 of the first and 8 of the second block.
template <bool is_signed>
inline IVec dot(IVec w, const uint8_t* x) {
  const IVec q = load_bytes(x);
#if defined(GPT_SIMD_BF16)
  return _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, q);
#else
  const IVec ones = _mm512_set1_epi16(1);
  if constexpr (is_signed) {
    const IVec turned = _mm512_mask_sub_epi8(q, _mm512_movepi8_mask(w), _mm512_setzero_si512(), q);
    return _mm512_madd_epi16(_mm512_maddubs_epi16(_mm512_abs_epi8(w), turned), ones);
  } else {
    return _mm512_madd_epi16(_mm512_maddubs_epi16(w, q), ones);
  }
#endif
}

inline IVec add_pairs(IVec a, IVec b) {
  return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}
inline IVec add_quads(IVec a, IVec b) {
  return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}
// The sums of the halves of blocks, in the order of half_block().
inline void sum_halves(const IVec (&p)[kRegisters], IVec (&t)[2]) {
  t[0] = add_quads(add_pairs(p[0], p[1]), add_pairs(p[2], p[3]));
  t[1] = add_quads(add_pairs(p[4], p[5]), add_pairs(p[6], p[7]));
}
// Half block number (2 b + half) of lane l of t[k].
inline int half_block(int k, int l) {
  return 2 * (8 * k + 2 * (l % 4) + l / 8) + l / 4 % 2;
}
// Whole blocks in their order.
inline IVec sum_blocks(IVec a, IVec b) {
  const IVec sum = _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
  return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15),
                                  sum);
}

inline IVec subtract(IVec a, IVec b) {
  return _mm512_sub_epi32(a, b);
}
inline IVec multiply(IVec a, IVec b) {
  return _mm512_mullo_epi32(a, b);
}
template <int n>
inline IVec shift_left(IVec v) {
  return _mm512_slli_epi32(v, n);
}
template <int n>
inline IVec shift_right(IVec v) {
  return _mm512_srli_epi32(v, n);
}
// The lower 16 bits of every lane as fp16.
inline Vec low_halves(IVec v) {
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}
inline IVec load_ints(const void* p) {
  return _mm512_loadu_si512(p);
}
inline void store_bytes(uint8_t* p, IVec q) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(q));
}

// One number for the first super-block, one for the second.
inline Vec per_super_block(float a, float b) {
  return _mm512_insertf32x8(_mm512_set1_ps(a), _mm256_set1_ps(b), 1);
}
// The first 16 bytes of two super-blocks, each twice.
template <DType dtype>
inline IVec super_block_heads(const uint8_t* p) {
  return _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(load128(p)), 0xff00,
                                     load128(p + block_size(dtype).bytes));
}
// Lanes of blocks 0 to 3 of each super-block from a, the others from b.
inline IVec per_half(IVec a, IVec b) {
  return _mm512_mask_blend_epi32(0xf0f0, a, b);
}
inline IVec shuffle_bytes(IVec v, IVec order) {
  return _mm512_shuffle_epi8(v, order);
}
inline IVec broadcast_first(IVec v) {
  return _mm512_shuffle_epi32(v, _MM_PERM_AAAA);
}
inline IVec bit_or(IVec a, IVec b) {
  return _mm512_or_si512(a, b);
}
inline IVec bit_xor(IVec a, IVec b) {
  return _mm512_xor_si512(a, b);
}
// Takes byte `low` + i and, where given, byte `high` + i to lane i of every four.
inline IVec spread_bytes(int low, int high = 0x80) {
  const auto lane = [&](int i) {
    const int above = high == 0x80 ? 0x80 : high + i;
    return static_cast<int32_t>(0x80800000u | static_cast<uint32_t>(above) << 8 |
                                static_cast<uint32_t>(low + i));
  };
  // Not a broadcast of four lanes: GCC 12 crashes on that with little optimisation.
  return _mm512_set4_epi32(lane(3), lane(2), lane(1), lane(0));
}
// The first four bytes of each block of a span.
template <DType dtype>
inline IVec block_heads(const uint8_t* p) {
  constexpr int kBlock = static_cast<int>(block_size(dtype).bytes);
  const IVec lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_i32gather_epi32(_mm512_mullo_epi32(lanes, splat(kBlock)), p, 1);
}
// The scales of the halves of super-block k, in the order of half_block().
inline IVec half_scales(const uint8_t* p, int k) {
  const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_cvtepi8_epi32(_mm_shuffle_epi8(load128(p + k * block_size(DType::q6_k).bytes + 192), order));
}

// Turns 8 registers of two blocks each, so that register g has group g of 4 bytes of every block: of block b
// in the lane turned_place(b).
__attribute__((always_inline)) inline void turn(IVec (&v)[kRegisters]) {
  IVec t[kRegisters];
  GPT_UNROLL
  for (int i = 0; i < kRegisters; i += 4) {
    const IVec a = _mm512_unpacklo_epi32(v[i], v[i + 1]), b = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    const IVec c = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]), d = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
    t[i] = _mm512_unpacklo_epi64(a, c);
    t[i + 1] = _mm512_unpackhi_epi64(a, c);
    t[i + 2] = _mm512_unpacklo_epi64(b, d);
    t[i + 3] = _mm512_unpackhi_epi64(b, d);
  }
  GPT_UNROLL
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88);
    v[i + 4] = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xdd);
  }
}
// Blocks in their order.
inline IVec in_order(IVec v) {
  return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), v);
}
// The lane in which sum_turned() has sum i.
inline int turned_place(int i) {
  return i / 4 * 8 + i % 4;
}
// Adds up the chains of 8 sums, each from the first to the last.
__attribute__((always_inline)) inline Vec sum_turned(const Vec (&chains)[1][kRegisters]) {
  IVec t[kRegisters];
  GPT_UNROLL
  for (int i = 0; i < kRegisters; ++i)
    t[i] = _mm512_castps_si512(chains[0][i]);
  turn(t);  // chains 0 to 7 in the lanes 0 to 3 and 8 to 11, the others in those behind them
  Vec sum = _mm512_castsi512_ps(t[0]);
  GPT_UNROLL
  for (int i = 1; i < kRegisters; ++i)
    sum = add(sum, _mm512_castsi512_ps(t[i]));
  GPT_UNROLL
  for (int i = 0; i < kRegisters; ++i)
    sum = add(sum, _mm512_castsi512_ps(_mm512_shuffle_i32x4(t[i], t[i], 0xf5)));
  return sum;
}
// sum + 4 products side by side, in every lane.
template <bool is_signed>
inline IVec add_dot(IVec sum, IVec w, const uint8_t* x) {
#if defined(GPT_SIMD_BF16)
  return _mm512_dpbusd_epi32(sum, w, load_bytes(x));
#else
  return _mm512_add_epi32(sum, dot<is_signed>(w, x));
#endif
}
inline void store_ints(uint8_t* p, IVec v) {
  _mm512_storeu_si512(p, v);
}

#else

inline IVec load256(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline IVec unpack_halves(const uint8_t* a) {
  const IVec v = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a)));
  return and_bytes(_mm256_srlv_epi64(v, _mm256_setr_epi64x(0, 0, 4, 4)), 15);
}
// 16 in every byte whose bit is set.
inline IVec fifth_bits(uint32_t bits) {
  const IVec bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int32_t>(bits)),
                                         _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2,
                                                          2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
  const IVec mask = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  return and_bytes(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, mask), mask), 16);
}
// Bits shifted right by n, or left when n is negative; what crosses bytes is masked off by the caller.
inline IVec shift_bits(IVec v, int n) {
  return n < 0 ? _mm256_slli_epi16(v, -n) : _mm256_srli_epi16(v, n);
}

template <DType dtype>
inline IVec unpack(const uint8_t* p, int i) {
  constexpr int64_t kBlock = block_size(dtype).bytes;
  if constexpr (dtype == DType::q8_0) {
    return load256(p + i * kBlock + 2);
  } else if constexpr (block_size(dtype).elements == 32) {
    constexpr int64_t kData = kBlock - 16;
    p += i * kBlock;
    const IVec v = unpack_halves(p + kData);
    if constexpr (dtype == DType::q5_0 || dtype == DType::q5_1) {
      return _mm256_or_si256(v, fifth_bits(load_as<uint32_t>(p + kData - 4)));
    } else {
      return v;
    }
  } else if constexpr (dtype == DType::q6_k) {
    const int half = i / 4, b = i % 4;
    const IVec low = shift_bits(load256(p + half * 64 + b % 2 * 32), b / 2 * 4);
    const IVec high = shift_bits(load256(p + 128 + half * 32), 2 * b - 4);
    return _mm256_or_si256(and_bytes(low, 15), and_bytes(high, 48));
  } else {
    const IVec v = and_bytes(shift_bits(load256(p + kBlock - 128 + i / 2 * 32), i % 2 * 4), 15);
    if constexpr (dtype == DType::q4_k) return v;
    return _mm256_or_si256(v, and_bytes(shift_bits(load256(p + 16), i - 4), 16));
  }
}

template <bool is_signed>
inline IVec dot(IVec w, const uint8_t* x) {
  const IVec q = load256(x), ones = _mm256_set1_epi16(1);
  if constexpr (is_signed) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w)), ones);
  } else {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(w, q), ones);
  }
}

inline IVec add_pairs(IVec a, IVec b) {
  return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
inline IVec add_quads(IVec a, IVec b) {
  return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
}
inline void sum_halves(const IVec (&p)[kRegisters], IVec (&t)[2]) {
  t[0] = add_quads(add_pairs(p[0], p[1]), add_pairs(p[2], p[3]));
  t[1] = add_quads(add_pairs(p[4], p[5]), add_pairs(p[6], p[7]));
}
inline int half_block(int k, int l) {
  return 2 * (4 * k + l % 4) + l / 4;
}
inline IVec sum_blocks(IVec a, IVec b) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

inline IVec subtract(IVec a, IVec b) {
  return _mm256_sub_epi32(a, b);
}
inline IVec multiply(IVec a, IVec b) {
  return _mm256_mullo_epi32(a, b);
}
template <int n>
inline IVec shift_left(IVec v) {
  return _mm256_slli_epi32(v, n);
}
template <int n>
inline IVec shift_right(IVec v) {
  return _mm256_srli_epi32(v, n);
}
inline Vec low_halves(IVec v) {
  const IVec low = _mm256_and_si256(v, splat(0xffff));
  const IVec packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
  return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}
inline IVec load_ints(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline void store_bytes(uint8_t* p, IVec q) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}

// A span is one super-block.
inline Vec per_super_block(float a, float) {
  return _mm256_set1_ps(a);
}
template <DType dtype>
inline IVec super_block_heads(const uint8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline IVec per_half(IVec a, IVec b) {
  return _mm256_blend_epi32(a, b, 0xf0);
}
inline IVec shuffle_bytes(IVec v, IVec order) {
  return _mm256_shuffle_epi8(v, order);
}
inline IVec broadcast_first(IVec v) {
  return _mm256_shuffle_epi32(v, 0);
}
inline IVec bit_or(IVec a, IVec b) {
  return _mm256_or_si256(a, b);
}
inline IVec bit_xor(IVec a, IVec b) {
  return _mm256_xor_si256(a, b);
}
inline IVec spread_bytes(int low, int high = 0x80) {
  const auto lane = [&](int i) {
    const int above = high == 0x80 ? 0x80 : high + i;
    return static_cast<int32_t>(0x80800000u | static_cast<uint32_t>(above) << 8 |
                                static_cast<uint32_t>(low + i));
  };
  return _mm256_broadcastsi128_si256(_mm_setr_epi32(lane(0), lane(1), lane(2), lane(3)));
}
template <DType dtype>
inline IVec block_heads(const uint8_t* p) {
  constexpr int kBlock = static_cast<int>(block_size(dtype).bytes);
  const IVec lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_i32gather_epi32(reinterpret_cast<const int*>(p), _mm256_mullo_epi32(lanes, splat(kBlock)), 1);
}
inline IVec half_scales(const uint8_t* p, int k) {
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  const __m128i scales = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 192)), order);
  return _mm256_cvtepi8_epi32(k == 0 ? scales : _mm_srli_si128(scales, 8));
}

__attribute__((always_inline)) inline void turn(IVec (&v)[kRegisters]) {
  IVec t[kRegisters];
  GPT_UNROLL
  for (int i = 0; i < kRegisters; i += 4) {
    const IVec a = _mm256_unpacklo_epi32(v[i], v[i + 1]), b = _mm256_unpackhi_epi32(v[i], v[i + 1]);
    const IVec c = _mm256_unpacklo_epi32(v[i + 2], v[i + 3]), d = _mm256_unpackhi_epi32(v[i + 2], v[i + 3]);
    t[i] = _mm256_unpacklo_epi64(a, c);
    t[i + 1] = _mm256_unpackhi_epi64(a, c);
    t[i + 2] = _mm256_unpacklo_epi64(b, d);
    t[i + 3] = _mm256_unpackhi_epi64(b, d);
  }
  GPT_UNROLL
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2x128_si256(t[i], t[i + 4], 0x20);
    v[i + 4] = _mm256_permute2x128_si256(t[i], t[i + 4], 0x31);
  }
}
inline IVec in_order(IVec v) {
  return v;
}
inline int turned_place(int i) {
  return i;
}
__attribute__((always_inline)) inline Vec sum_turned(const Vec (&chains)[2][kRegisters]) {
  Vec sum = zero();
  for (int part = 0; part < 2; ++part) {
    IVec t[kRegisters];
    for (int i = 0; i < kRegisters; ++i)
      t[i] = _mm256_castps_si256(chains[part][i]);
    turn(t);
    for (int i = 0; i < kRegisters; ++i) {
      const Vec chain = _mm256_castsi256_ps(t[i]);
      sum = part == 0 && i == 0 ? chain : add(sum, chain);
    }
  }
  return sum;
}
template <bool is_signed>
inline IVec add_dot(IVec sum, IVec w, const uint8_t* x) {
  return _mm256_add_epi32(sum, dot<is_signed>(w, x));
}
inline void store_ints(uint8_t* p, IVec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}

#endif

}  // namespace
}  // namespace gpt::quant
