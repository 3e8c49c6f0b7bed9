// Fused attention for few queries (see attention_kernels.h). Packing a tile in fp32 would take as long as
// processing a dozen queries, so this kernel reads the KV cache directly. Keys are transposed in their
// storage dtype, as words of k-packs, and widened in registers. Values are read unpacked. Every sum has the
// same order as in forward_tile.
#include "kernels/cpu/simd/attention_micro_kernel.h"
#include "kernels/cpu/simd/attention_softmax.h"

namespace gpt::GPT_SIMD_NAMESPACE {

// Maximum number of rows in a block. Four rows need most of the 32 registers: 16 accumulators (four vectors
// per row), four vectors of packed keys, and four vectors of widened keys.
static constexpr int kDecodeRows = 4;

template <int n>
struct Count {};
template <class F>
GPT_INLINE void with_count(int64_t n, F f) {  // n <= kNrVecs
  if (n == 1) return f(Count<1>{});
  if (n == 2) return f(Count<2>{});
  if constexpr (kNrVecs > 2) return n == 3 ? f(Count<3>{}) : f(Count<4>{});
}

// One vector of a row holds kLanes words of kPack elements each. Transposing words first and widening them
// afterwards takes fewer shuffles than transposing floats.
#if defined(GPT_SIMD_AVX512)
template <class E>
static constexpr int kPack = 4 / sizeof(E);
template <>
constexpr int kPack<Q4> = 8;  // elements in four bytes of a block: i, ..., i + 3, i + 16, ..., i + 19

GPT_INLINE Vec load_words(const float* p, int64_t n) {
  return n < 16 ? load(p, first_lanes(n)) : load(p);
}
template <class E>
GPT_INLINE Vec load_words(const E* p, int64_t n) {
  __m512i words;
  if (n >= 64 / static_cast<int64_t>(sizeof(E))) {
    words = _mm512_loadu_si512(p);
  } else if (sizeof(E) == 2) {
    words = _mm512_maskz_loadu_epi16((uint32_t{1} << static_cast<uint32_t>(n)) - 1, p);
  } else {
    words = _mm512_maskz_loadu_epi8((uint64_t{1} << static_cast<uint64_t>(n)) - 1, p);
  }
  return _mm512_castsi512_ps(words);
}
// Loads words, without applying the scales of the quantization blocks. n must be a multiple of the block
// size.
GPT_INLINE Vec load_words(Q4Row row, int64_t n) {
  const auto block = [=](int64_t b) {
    return b * kQ4Block < n ? q4_bytes(block_of(row + b * kQ4Block)) : _mm_setzero_si128();
  };
  const __m256i low = _mm256_set_m128i(block(1), block(0)), high = _mm256_set_m128i(block(3), block(2));
  return _mm512_castsi512_ps(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
}

// Returns element j of every word as a float.
template <int j>
GPT_INLINE Vec widen_word(const float*, Vec word) {
  return word;
}
template <int j>
GPT_INLINE Vec widen_word(const Bf16*, Vec word) {
  const __m512i bits = _mm512_castps_si512(word);
  return _mm512_castsi512_ps(j == 0 ? _mm512_slli_epi32(bits, 16)
                                    : _mm512_and_si512(bits, _mm512_set1_epi32(-0x10000)));
}
template <int j>
GPT_INLINE Vec widen_word(const F16*, Vec word) {
  const __m512i bits = _mm512_castps_si512(word);
  return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(j == 0 ? bits : _mm512_srli_epi32(bits, 16)));
}
template <int j>
GPT_INLINE Vec widen_word(const int8_t*, Vec word) {
  const __m512i top = _mm512_slli_epi32(_mm512_castps_si512(word), 24 - 8 * j);
  return _mm512_cvtepi32_ps(_mm512_srai_epi32(top, 24));
}
template <int j>
GPT_INLINE Vec widen_word(const Q4*, Vec word) {
  constexpr auto kShift = static_cast<unsigned>(8 * (j % 4) + j / 4 * 4);
  return look_up(q4_values(), _mm512_srli_epi32(_mm512_castps_si512(word), kShift));
}

// Transposes the scales of the quantization blocks of kLanes rows. The scales are stored after the words, as
// [blocks,kKeyTile].
template <class E>
static constexpr bool kHasScales = false;
template <>
constexpr bool kHasScales<Q4> = true;
GPT_INLINE void transpose_scales(const Q4Row (&rows)[kLanes], int64_t cols, float* to) {
  for (int64_t c = 0; c < cols; c += kQ4Block, to += kKeyTile) {
    alignas(32) uint16_t d[kLanes];
    GPT_UNROLL
    for (int i = 0; i < kLanes; ++i)
      __builtin_memcpy(&d[i], block_of(rows[i] + c), sizeof d[i]);
    store(to, load(reinterpret_cast<const F16*>(d)));
  }
}
#else
template <class E>
static constexpr int kPack = 1;
template <class E>
static constexpr bool kHasScales = false;

template <class Row>
GPT_INLINE Vec load_words(Row p, int64_t n) {
  return n < kLanes ? load_n(p, n) : load(p);
}
template <int j, class E>
GPT_INLINE Vec widen_word(const E*, Vec word) {
  return word;
}
#endif

template <class E>
GPT_INLINE Row<E> visible_row(const PackRows& src, int64_t i) {
  return row_at<E>(src.base, src.rows[i] * src.ld);
}

template <class E, class P>
GPT_INLINE P* scales_of(P* words, int64_t cols) {
  return words + cols / kPack<E> * kKeyTile;
}

// Packs keys as columns of words, [words,kKeyTile]. Packs every vector that contains a key in [begin,end). In
// these vectors, keys outside of [begin,end) are replaced by copies of a key inside.
template <class E>
GPT_INLINE void transpose_words(const PackRows& k, int64_t begin, int64_t end, float* to) {
  constexpr int64_t kWidth = kLanes * kPack<E>;
  for (int64_t first = begin / kLanes * kLanes; first < end; first += kLanes) {
    Row<E> rows[kLanes];
    GPT_UNROLL
    for (int64_t i = 0; i < kLanes; ++i) {
      prefetch<E>(k, first + i, 0, k.cols);
      rows[i] = visible_row<E>(k, most(begin, least(first + i, end - 1)));
    }
    for (int64_t c = 0, w = 0; c < k.cols; c += kWidth, w += kLanes) {
      Vec t[kLanes];
      GPT_UNROLL
      for (int i = 0; i < kLanes; ++i)
        t[i] = load_words(rows[i] + c, k.cols - c);
      transpose(t);
      const int64_t n = least(kLanes, (k.cols - c + kPack<E> - 1) / kPack<E>);
      for (int64_t i = 0; i < n; ++i)
        store(to + (w + i) * kKeyTile + first, t[i]);
    }
    if constexpr (kHasScales<E>) transpose_scales(rows, k.cols, scales_of<E>(to, k.cols) + first);
  }
}

// Computes s[r][v] += q[r][i - j] * element i of every word, for i from j to end - 1.
template <int j, int end, class E, int R, int NV>
GPT_INLINE void add_words(Vec (&s)[R][NV], const float* q, int64_t dp, const Vec (&words)[NV],
                          const float* scales) {
  if constexpr (j < end) {
    Vec k[NV];
    GPT_UNROLL
    for (int v = 0; v < NV; ++v) {
      k[v] = widen_word<j>(static_cast<const E*>(nullptr), words[v]);
      if constexpr (kHasScales<E>) k[v] = k[v] * load(scales + v * kLanes);
    }
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      const Vec factor = set1(q[r * dp]);
      GPT_UNROLL
      for (int v = 0; v < NV; ++v)
        s[r][v] = fma(factor, k[v], s[r][v]);
    }
    add_words<j + 1, end, E>(s, q + 1, dp, words, scales);
  }
}

// Calls add_words() for n consecutive rows of words.
template <int j, int end, class E, int R, int NV>
GPT_INLINE void add_columns(Vec (&s)[R][NV], const float* q, int64_t dp, const float* keys, int64_t n,
                            const float* scales) {
  for (int64_t i = 0; i < n; ++i, q += end - j, keys += kKeyTile) {
    Vec words[NV];
    GPT_UNROLL
    for (int v = 0; v < NV; ++v)
      words[v] = load(keys + v * kLanes);
    add_words<j, end, E>(s, q, dp, words, scales);
  }
}

// Computes the scores of R rows for NV vectors of keys. Elements past the head width are zero in q and in the
// last words of the keys.
template <class E, int R, int NV>
GPT_INLINE void score_words(const float* keys, const float* q, int64_t dp, int64_t d, float* scores) {
  Vec s[R][NV];
  clear(s);
  if constexpr (kHasScales<E>) {
    constexpr int64_t kHalf = kQ4Block / 2, kWords = kQ4Block / kPack<E>;
    const float* scales = scales_of<E>(keys, d);
    for (int64_t c = 0; c < d; c += kQ4Block, keys += kWords * kKeyTile, scales += kKeyTile) {
      add_columns<0, kPack<E> / 2, E>(s, q + c, dp, keys, kWords, scales);
      add_columns<kPack<E> / 2, kPack<E>, E>(s, q + c + kHalf, dp, keys, kWords, scales);
    }
  } else {
    add_columns<0, kPack<E>, E>(s, q, dp, keys, (d + kPack<E> - 1) / kPack<E>, nullptr);
  }
  store_block<true>(s, scores, kKeyTile, first_lanes(kLanes));
}

// Arguments of O = alpha O + P V for a block of rows and some vectors of the head width.
struct DecodeSum {
  float* out;
  int64_t dp;
  const float* alpha;    // [R]: factors of the running numerators
  const float* weights;  // [R,kKeyTile]
  const PackRows* v;
  int64_t column;
  int64_t begin, end;
};

// Loads the next NV vectors of a row that has `cols` elements left.
template <bool whole, class From, int NV>
GPT_INLINE void load_vecs(From from, int64_t cols, Vec (&row)[NV]) {
  GPT_UNROLL
  for (int v = 0; v + 1 < NV; ++v)
    row[v] = load(from + v * kLanes);
  const From last = from + (NV - 1) * kLanes;
  row[NV - 1] = whole ? load(last) : load_n(last, cols - (NV - 1) * kLanes);
}
#if defined(GPT_SIMD_AVX512)
// Loads whole quantization blocks. A block fills two vectors. A pass with an even number of vectors never
// starts in the middle of a block (see vecs_per_pass).
template <bool whole, int NV>
requires(NV % 2 == 0) GPT_INLINE void load_vecs(Q4Row from, int64_t, Vec (&row)[NV]) {
  GPT_UNROLL
  for (int v = 0; v < NV; v += 2) {
    const uint8_t* block = block_of(from + v * kLanes);
    const Vec values = q4_values() * set1(load_scale(block));
    const __m512i q = _mm512_cvtepu8_epi32(q4_bytes(block));
    row[v] = look_up(values, q);
    row[v + 1] = look_up(values, _mm512_srli_epi32(q, 4));
  }
}
#endif

template <bool whole, class E, int R, int NV>
GPT_INLINE void decode_sum(const DecodeSum& sum) {
  const DecodeSum w = sum;  // a copy, because stores to out could alias the original
  Vec c[R][NV];
  load_scaled(c, w.out, w.dp, w.alpha);
  for (int64_t k = w.begin; k < w.end; ++k) {
    prefetch<E>(*w.v, k, w.column, w.column + NV * kLanes);
    const Row<E> from = visible_row<E>(*w.v, k) + w.column;
    Vec row[NV];
    load_vecs<whole>(from, w.v->cols - w.column, row);
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      const Vec factor = set1(w.weights[r * kKeyTile + k]);
      GPT_UNROLL
      for (int v = 0; v < NV; ++v)
        c[r][v] = fma(factor, row[v], c[r][v]);
    }
  }
  store_block<true>(c, w.out, w.dp, first_lanes(kLanes));
}

template <class E, int R>
static void decode_block(const AttentionForwardTile& t, const PackRows& v, int64_t first) {
  alignas(64) float s[R * kKeyTile];
  alignas(64) float alpha[kLanes];
  const int64_t begin = t.begin[first], end = t.end[first];
  const float* q = static_cast<const float*>(t.q) + first * t.dp;
  const float* keys = static_cast<const float*>(t.kt);
  const int64_t to = (end + kLanes - 1) / kLanes;
  for (int64_t at = begin / kLanes; at < to; at += kNrVecs) {
    with_count(least(kNrVecs, to - at), [&]<int NV>(Count<NV>) GPT_ALWAYS_INLINE {
      score_words<E, R, NV>(keys + at * kLanes, q, t.dp, t.d, s + at * kLanes);
    });
  }
  softmax_block(t, first, R, s, alpha);
  const int64_t vecs = t.dp / kLanes;
  const int64_t step = vecs_per_pass(vecs);
  for (int64_t at = 0; at < vecs; at += step) {
    const int64_t column = at * kLanes, n = least(step, vecs - at);
    const DecodeSum w = {t.out + first * t.dp + column, t.dp, alpha, s, &v, column, begin, end};
    with_count(n, [&]<int NV>(Count<NV>) GPT_ALWAYS_INLINE {
      if (column + n * kLanes <= v.cols) {
        decode_sum<true, E, R, NV>(w);
      } else {
        decode_sum<false, E, R, NV>(w);
      }
    });
  }
}

void decode_tile(const AttentionForwardTile& t, const PackRows& k, const PackRows& v, float* keys) {
  if (t.begin[0] >= t.end[0]) return;
  with_type(k.type, k.base, [&]<class E>(const E*) GPT_ALWAYS_INLINE {
    using Block = void (*)(const AttentionForwardTile&, const PackRows&, int64_t);
    static constexpr Block kBlocks[kDecodeRows] = {decode_block<E, 1>, decode_block<E, 2>, decode_block<E, 3>,
                                                   decode_block<E, 4>};
    transpose_words<E>(k, t.begin[0], t.end[0], keys);
    const int64_t blocks = (t.rows + kDecodeRows - 1) / kDecodeRows;
    const int64_t step = (t.rows + blocks - 1) / blocks;
    for (int64_t r = 0; r < t.rows; r += step)
      kBlocks[least(step, t.rows - r) - 1](t, v, r);
  });
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
