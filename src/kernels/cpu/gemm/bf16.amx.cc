// Kernels for matrix products in bf16 with AMX. tdpbf16ps multiplies a tile of A (16 rows of 16 words) by a
// tile of B (16 words of k by 16 columns). Packed panels have the same layout as in bf16.bf16.cc. The
// micro-kernel is different. The packing of operand A is different as well, because AMX requires contiguous
// rows. A block of C consists of 2 x 2 tiles (amx.h):
//
//                      B[16 words, 16]   B[16 words, 16]
//     A[16, 16 words]      C tile 0          C tile 1
//     A[16, 16 words]      C tile 2          C tile 3

#include "kernels/cpu/gemm/kernels.h"
#include "kernels/cpu/gemm/pack_panels.h"
#include "kernels/cpu/simd/amx.h"
#include "kernels/cpu/simd/bf16_pairs.h"

namespace gpt::gemm {
namespace {

using namespace GPT_SIMD_NAMESPACE;  // NOLINT(google-build-using-namespace): used by the whole file

constexpr int64_t kTileWords = 16;  // number of words of k in a tile
constexpr int64_t kTileRows = amx::kTileRows, kBlockRows = amx::kBlockRows, kBlockCols = amx::kBlockCols;
constexpr int64_t kWord = sizeof(uint32_t);

// Adds the products of the last `words` words of k, which are too few to fill a tile. These words are first
// copied to zero-padded buffers.
template <bool kLower>
void add_last_products(const MicroKernelArgs& t, const uint32_t* a, const uint32_t* b, int64_t words) {
  alignas(64) uint32_t last_a[kBlockRows * kTileWords];
  alignas(64) uint32_t last_b[kTileWords * kBlockCols];
  const Mask some = first_lanes(words);
  for (int64_t r = 0; r < t.rows; ++r)
    _mm512_store_si512(last_a + r * kTileWords, _mm512_maskz_loadu_epi32(some, a + r * t.a_row));
  for (int64_t l = 0; l < kTileWords; ++l) {
    for (int64_t c = 0; c < kBlockCols; c += kLanes) {
      const __m512i words_of_b =
          l < words ? _mm512_loadu_si512(b + l * kBlockCols + c) : _mm512_setzero_si512();
      _mm512_store_si512(last_b + l * kBlockCols + c, words_of_b);
    }
  }
  see_stores();
  add_products<kLower>(last_a, kTileWords * kWord, last_b, kBlockCols * kWord);
}

// Adds the old C (with `accumulate`) and the bias to acc [rows,kBlockCols], and stores the result to C.
void finish(const MicroKernelArgs& t, const float* acc) {
  for (int64_t v = 0; v < t.cols; v += kLanes) {
    const int64_t n = t.cols - v < kLanes ? t.cols - v : kLanes;
    const Vec bias = t.bias ? load_n(t.bias + v, n) : zero();
    const Mask lanes = first_lanes(n);
    for (int64_t r = 0; r < t.rows; ++r) {
      float* c = t.c + r * t.ldc + v;
      Vec sum = load(acc + r * kBlockCols + v);
      if (t.accumulate) sum = load(c, lanes) + sum;
      store(c, sum + bias, lanes);
    }
  }
}

// Prefetches the part of B that one iteration reads, `distance` bytes ahead.
void prefetch(const uint32_t* b, int64_t distance) {
  const char* p = reinterpret_cast<const char*>(b) + distance;
  for (int64_t line = 0; line < kTileWords * kBlockCols * kWord; line += 64)
    __builtin_prefetch(p + line, 0, 3);
}

template <bool kLower>
void block(const MicroKernelArgs& t) {
  alignas(64) float acc[kBlockRows * kBlockCols];
  for (int64_t r = 0; r < t.rows; ++r) {
    __builtin_prefetch(t.c + r * t.ldc, 1);
    __builtin_prefetch(t.c + r * t.ldc + kLanes, 1);
  }
  zero_sums<kLower>();
  see_stores();
  const auto* a = static_cast<const uint32_t*>(t.a);
  const auto* b = static_cast<const uint32_t*>(t.b);
  int64_t l = 0;
  for (; l + kTileWords <= t.k; l += kTileWords) {
    if (!kLower && t.prefetch_distance != 0) prefetch(b + l * kBlockCols, t.prefetch_distance);
    add_products<kLower>(a + l, t.a_row * kWord, b + l * kBlockCols, kBlockCols * kWord);
  }
  if (l < t.k) add_last_products<kLower>(t, a + l, b + l * kBlockCols, t.k - l);
  if (t.cols == kBlockCols && !t.accumulate && !t.bias) return store_sums<kLower>(t.c, t.ldc * kWord);
  store_sums<kLower>(acc, kBlockCols * kWord);
  finish(t, acc);
}

void micro_kernel(const MicroKernelArgs& t) {
  amx::configure(t.rows);
  t.rows > kTileRows ? block<true>(t) : block<false>(t);
}

// Packs columns of the source matrix as rows of words, sixteen columns and sixteen pairs of elements at a
// time.
template <class T>
void pack_transposed_as(const PackPanelArgs& p, int64_t first) {
  const auto* src = static_cast<const T*>(p.src) + first;
  uint32_t* dst = p.dst + first * p.width;
  const int64_t count = p.count - first < kLanes ? p.count - first : kLanes;
  Vec sum = zero();
  for (int64_t l = 0; l < p.k; l += 2 * kTileWords, dst += kTileWords) {
    Vec pairs[kTileWords];
    for (int64_t i = 0; i < kTileWords; ++i, src += 2 * p.ld) {
      const int64_t left = p.k - l - 2 * i;
      const Vec even = left > 0 ? load_n(src, count) : zero(),
                odd = left > 1 ? load_n(src + p.ld, count) : zero();
      sum = sum + even + odd;
      pairs[i] = _mm512_castsi512_ps(interleave(even, odd));
    }
    transpose(pairs);
    const int64_t words = (p.k - l + 1) / 2;
    for (int64_t i = 0; i < count; ++i)
      store_n(reinterpret_cast<float*>(dst + i * p.width), pairs[i], words < kTileWords ? words : kTileWords);
  }
  if (p.sums) store_n(p.sums + first, load_n(p.sums + first, count) + sum, count);
}

void pack_rows_transposed(const PackPanelArgs& p) {
  for_type(p.type, [&]<class T>(T*) {
    for (int64_t first = 0; first < p.count; first += kLanes)
      pack_transposed_as<T>(p, first);
  });
}

}  // namespace

Kernels bf16_kernels_amx() {
  Kernels k = bf16_kernels_avx512();
  k.mr = kBlockRows;
  k.nr = kBlockCols;
  k.micro_kernel = micro_kernel;
  k.max_kc = 256;
  k.pack_rows_transposed = pack_rows_transposed;
  return k;
}

}  // namespace gpt::gemm
