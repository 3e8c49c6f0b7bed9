// Compiled once per instruction set, with GPT_SIMD_AVX2 or GPT_SIMD_AVX512 (see simd/README.md): raw
// pointers and internal linkage only.

#include "kernels/cpu/gemm/packed_kernel.h"

// g++ 12 takes the deliberately undefined operand of its own intrinsics for a mistake (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#ifdef __clang__
#define GPT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GPT_UNROLL _Pragma("GCC unroll 16")
#endif

namespace gpt::gemm {
namespace {

// Register tiles. A multiply-add has a latency of 4 cycles and issues once (512 bits) or twice (256 bits)
// a cycle, so at least 8 sums must be under way; beyond that the tile should be as square as the register
// file allows, for the fewest loads per multiply-add. 12 x 2 sums + 2 of B leave 6 of 32 registers,
// 4 x 3 sums + 3 of B + 1 of A fill all 16.
#if defined(GPT_SIMD_AVX512)
using Vec = __m512;
constexpr int kLanes = 16, kRows = 12, kVecs = 2;
inline Vec zero() {
  return _mm512_setzero_ps();
}
inline Vec splat(const float* p) {
  return _mm512_set1_ps(*p);
}
inline Vec load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void store(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
using Mask = __mmask16;
inline Mask first_lanes(int64_t n) {
  return static_cast<Mask>(n >= kLanes ? 0xffff : (1 << n) - 1);
}
inline Vec load(const float* p, Mask m) {
  return _mm512_maskz_loadu_ps(m, p);
}
inline void store(float* p, Vec v, Mask m) {
  _mm512_mask_storeu_ps(p, m, v);
}
inline Vec add(Vec a, Vec b) {
  return _mm512_add_ps(a, b);
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
#else
using Vec = __m256;
constexpr int kLanes = 8, kRows = 4, kVecs = 3;
inline Vec zero() {
  return _mm256_setzero_ps();
}
inline Vec splat(const float* p) {
  return _mm256_broadcast_ss(p);
}
inline Vec load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void store(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}
using Mask = __m256i;
inline Mask first_lanes(int64_t n) {
  const int count = static_cast<int>(n >= kLanes ? kLanes : n);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec load(const float* p, Mask m) {
  return _mm256_maskload_ps(p, m);
}
inline void store(float* p, Vec v, Mask m) {
  _mm256_maskstore_ps(p, m, v);
}
inline Vec add(Vec a, Vec b) {
  return _mm256_add_ps(a, b);
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
#endif
constexpr int kWidth = kLanes * kVecs;

// Transposes kLanes vectors in place.
#if defined(GPT_SIMD_AVX512)
inline void transpose(Vec* t) {
  Vec u[16];
  GPT_UNROLL
  for (int i = 0; i < 16; i += 2) {
    u[i] = _mm512_unpacklo_ps(t[i], t[i + 1]);
    u[i + 1] = _mm512_unpackhi_ps(t[i], t[i + 1]);
  }
  GPT_UNROLL
  for (int i = 0; i < 16; i += 4) {
    t[i] = _mm512_shuffle_ps(u[i], u[i + 2], 0x44);
    t[i + 1] = _mm512_shuffle_ps(u[i], u[i + 2], 0xee);
    t[i + 2] = _mm512_shuffle_ps(u[i + 1], u[i + 3], 0x44);
    t[i + 3] = _mm512_shuffle_ps(u[i + 1], u[i + 3], 0xee);
  }
  // t[4 q + j] now holds columns j, 4 + j, 8 + j, 12 + j of rows 4 q to 4 q + 3.
  GPT_UNROLL
  for (int j = 0; j < 4; ++j) {
    const Vec low02 = _mm512_shuffle_f32x4(t[j], t[4 + j], 0x88),
              low13 = _mm512_shuffle_f32x4(t[j], t[4 + j], 0xdd);
    const Vec high02 = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0x88),
              high13 = _mm512_shuffle_f32x4(t[8 + j], t[12 + j], 0xdd);
    u[j] = _mm512_shuffle_f32x4(low02, high02, 0x88);
    u[4 + j] = _mm512_shuffle_f32x4(low13, high13, 0x88);
    u[8 + j] = _mm512_shuffle_f32x4(low02, high02, 0xdd);
    u[12 + j] = _mm512_shuffle_f32x4(low13, high13, 0xdd);
  }
  GPT_UNROLL
  for (int i = 0; i < 16; ++i)
    t[i] = u[i];
}
#else
inline void transpose(Vec* t) {
  Vec u[8];
  GPT_UNROLL
  for (int i = 0; i < 8; i += 2) {
    u[i] = _mm256_unpacklo_ps(t[i], t[i + 1]);
    u[i + 1] = _mm256_unpackhi_ps(t[i], t[i + 1]);
  }
  GPT_UNROLL
  for (int i = 0; i < 8; i += 4) {
    t[i] = _mm256_shuffle_ps(u[i], u[i + 2], 0x44);
    t[i + 1] = _mm256_shuffle_ps(u[i], u[i + 2], 0xee);
    t[i + 2] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0x44);
    t[i + 3] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0xee);
  }
  GPT_UNROLL
  for (int i = 0; i < 4; ++i) {
    u[i] = _mm256_permute2f128_ps(t[i], t[4 + i], 0x20);
    u[4 + i] = _mm256_permute2f128_ps(t[i], t[4 + i], 0x31);
  }
  GPT_UNROLL
  for (int i = 0; i < 8; ++i)
    t[i] = u[i];
}
#endif

struct Tile {
  int64_t k;
  const float* a;
  const float* b;
  float* c;
  int64_t ldc;
  const float* bias;
  int64_t cols;
  bool add;
};

// Adds what C holds, then the bias: of one row of a tile. `sum` has kWidth elements.
template <int V>
inline void finish_row(const Tile& t, Vec* sum, float* c) {
  GPT_UNROLL
  for (int v = 0; v < V; ++v) {
    if (t.add) sum[v] = add(load(c + v * kLanes), sum[v]);
    if (t.bias) sum[v] = add(sum[v], load(t.bias + v * kLanes));
    store(c + v * kLanes, sum[v]);
  }
}

// The same for a tile narrower than its vectors.
template <int V>
inline void finish_narrow_row(const Tile& t, Vec* sum, float* c) {
  GPT_UNROLL
  for (int v = 0; v < V; ++v) {
    const Mask mask = first_lanes(t.cols - v * kLanes);
    if (t.add) sum[v] = add(load(c + v * kLanes, mask), sum[v]);
    if (t.bias) sum[v] = add(sum[v], load(t.bias + v * kLanes, mask));
    store(c + v * kLanes, sum[v], mask);
  }
}

// R rows, V vectors of columns.
template <int R, int V>
void compute(const Tile& t) {
  Vec sum[R][V];
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    GPT_UNROLL
    for (int v = 0; v < V; ++v)
      sum[r][v] = zero();
  }
  const float* a = t.a;
  const float* b = t.b;
  for (int64_t l = 0; l < t.k; ++l, a += R, b += kWidth) {
    Vec w[V];
    GPT_UNROLL
    for (int v = 0; v < V; ++v)
      w[v] = load(b + v * kLanes);
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      const Vec x = splat(a + r);
      GPT_UNROLL
      for (int v = 0; v < V; ++v)
        sum[r][v] = fma(x, w[v], sum[r][v]);
    }
  }
  const bool whole = t.cols == V * kLanes;
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    if (whole) {
      finish_row<V>(t, sum[r], t.c + r * t.ldc);
    } else {
      finish_narrow_row<V>(t, sum[r], t.c + r * t.ldc);
    }
  }
}

using Compute = void (*)(const Tile&);

template <int R>
Compute pick_width(int64_t vecs) {
#if defined(GPT_SIMD_AVX512)
  return vecs == 1 ? compute<R, 1> : compute<R, 2>;
#else
  return vecs == 1 ? compute<R, 1> : vecs == 2 ? compute<R, 2> : compute<R, 3>;
#endif
}

Compute pick(int64_t rows, int64_t vecs) {
  switch (rows) {
    case 1:
      return pick_width<1>(vecs);
    case 2:
      return pick_width<2>(vecs);
    case 3:
      return pick_width<3>(vecs);
#if defined(GPT_SIMD_AVX512)
    case 4:
      return pick_width<4>(vecs);
    case 5:
      return pick_width<5>(vecs);
    case 6:
      return pick_width<6>(vecs);
    case 7:
      return pick_width<7>(vecs);
    case 8:
      return pick_width<8>(vecs);
    case 9:
      return pick_width<9>(vecs);
    case 10:
      return pick_width<10>(vecs);
    case 11:
      return pick_width<11>(vecs);
#endif
    default:
      return pick_width<kRows>(vecs);
  }
}

inline int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// A strip of B stays in the first-level cache while the strips of A pass by from the second.
void block(const BlockArgs& p) {
  for (int64_t j = 0; j < p.cols; j += kWidth) {
    const int64_t cols = least(kWidth, p.cols - j);
    const int64_t vecs = (cols + kLanes - 1) / kLanes;
    const Compute full = pick(kRows, vecs);
    for (int64_t i = 0; i < p.rows; i += kRows) {
      const int64_t rows = least(kRows, p.rows - i);
      const Compute f = rows == kRows ? full : pick(rows, vecs);
      f({.k = p.k,
         .a = p.a + i * p.k,
         .b = p.b + j * p.k,
         .c = p.c + i * p.ldc + j,
         .ldc = p.ldc,
         .bias = p.bias ? p.bias + j : nullptr,
         .cols = cols,
         .add = p.add});
    }
  }
}

// Adds n <= kLanes elements of k to the sums of R rows and kLanes columns; whole: n is kLanes.
template <int R, bool whole>
inline void add_square(const ThinArgs& p, const float* a, const float* b, int64_t n, Vec* sum) {
  Vec t[kLanes];
  const int64_t ld = p.ldb;
  GPT_UNROLL
  for (int j = 0; j < kLanes; j += 4, b += 4 * ld) {  // few addresses at a time, to keep them in registers
    const Mask mask = first_lanes(n);
    t[j] = whole ? load(b) : load(b, mask);
    t[j + 1] = whole ? load(b + ld) : load(b + ld, mask);
    t[j + 2] = whole ? load(b + 2 * ld) : load(b + 2 * ld, mask);
    t[j + 3] = whole ? load(b + 3 * ld) : load(b + 3 * ld, mask);
  }
  transpose(t);
  if (whole) {
    GPT_UNROLL
    for (int y = 0; y < kLanes; ++y) {
      GPT_UNROLL
      for (int r = 0; r < R; ++r)
        sum[r] = fma(splat(a + r * p.lda + y), t[y], sum[r]);
    }
  } else {
    for (int y = 0; y < n; ++y) {
      GPT_UNROLL
      for (int r = 0; r < R; ++r)
        sum[r] = fma(splat(a + r * p.lda + y), t[y], sum[r]);
    }
  }
}

// The sums of all vectors of columns grow side by side, because each is one chain of additions.
template <int R>
void compute_thin(const ThinArgs& p) {
  Vec sum[kVecs][R];
  GPT_UNROLL
  for (int v = 0; v < kVecs; ++v) {
    GPT_UNROLL
    for (int r = 0; r < R; ++r)
      sum[v][r] = zero();
  }
  int64_t l = 0;
  for (; l + kLanes <= p.k; l += kLanes) {
    GPT_UNROLL
    for (int v = 0; v < kVecs; ++v) {
      add_square<R, true>(p, p.a + l, p.b + v * kLanes * p.ldb + l, kLanes, sum[v]);
    }
  }
  if (l < p.k) {
    GPT_UNROLL
    for (int v = 0; v < kVecs; ++v) {
      add_square<R, false>(p, p.a + l, p.b + v * kLanes * p.ldb + l, p.k - l, sum[v]);
    }
  }
  const Tile t{
      .k = p.k, .a = p.a, .b = p.b, .c = p.c, .ldc = p.ldc, .bias = p.bias, .cols = kWidth, .add = p.add};
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    Vec row[kVecs];
    GPT_UNROLL
    for (int v = 0; v < kVecs; ++v)
      row[v] = sum[v][r];
    finish_row<kVecs>(t, row, p.c + r * p.ldc);
  }
}

void thin(const ThinArgs& p) {
  switch (p.rows) {
    case 1:
      return compute_thin<1>(p);
    case 2:
      return compute_thin<2>(p);
    case 3:
      return compute_thin<3>(p);
    default:
      return compute_thin<kMaxThinRows>(p);
  }
}

// dst[(l + y) * width + x] = src[x * ld + l + y] for x, y < 4.
inline void transpose4(const float* src, int64_t ld, int64_t width, float* dst) {
  __m128 r0 = _mm_loadu_ps(src), r1 = _mm_loadu_ps(src + ld);
  __m128 r2 = _mm_loadu_ps(src + 2 * ld), r3 = _mm_loadu_ps(src + 3 * ld);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(dst, r0);
  _mm_storeu_ps(dst + width, r1);
  _mm_storeu_ps(dst + 2 * width, r2);
  _mm_storeu_ps(dst + 3 * width, r3);
}

void pack_transposing(const PackArgs& p) {
  const int64_t count4 = p.count / 4 * 4, k4 = p.k / 4 * 4;
  for (int64_t l = 0; l < k4; l += 4) {
    for (int64_t i = 0; i < count4; i += 4) {
      transpose4(p.src + i * p.ld + l, p.ld, p.width, p.dst + l * p.width + i);
    }
  }
  for (int64_t l = 0; l < p.k; ++l) {
    for (int64_t i = l < k4 ? count4 : 0; i < p.count; ++i)
      p.dst[l * p.width + i] = p.src[i * p.ld + l];
  }
}

template <int kCount>
void pack_rows(const PackArgs& p) {
  for (int64_t l = 0; l < p.k; ++l) {
    const float* src = p.src + l * p.ld;
    float* dst = p.dst + l * p.width;
    GPT_UNROLL
    for (int i = 0; i < kCount; i += 4)
      _mm_storeu_ps(dst + i, _mm_loadu_ps(src + i));
  }
}

void pack(const PackArgs& p) {
  if (p.k_contiguous) {
    pack_transposing(p);
  } else if (p.count == kRows) {
    pack_rows<kRows>(p);
  } else if (p.count == kWidth) {
    pack_rows<kWidth>(p);
  } else {
    for (int64_t l = 0; l < p.k; ++l) {
      for (int64_t i = 0; i < p.count; ++i)
        p.dst[l * p.width + i] = p.src[l * p.ld + i];
    }
  }
  for (int64_t l = 0; p.count < p.width && l < p.k; ++l) {
    for (int64_t i = p.count; i < p.width; ++i)
      p.dst[l * p.width + i] = 0;
  }
}

}  // namespace

#if defined(GPT_SIMD_AVX512)
PackedKernel packed_kernel_avx512() {
  return {kRows, kWidth, pack, block, thin};
}
#else
PackedKernel packed_kernel_avx2() {
  return {kRows, kWidth, pack, block, thin};
}
#endif

}  // namespace gpt::gemm
