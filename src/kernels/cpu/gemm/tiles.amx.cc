// Products of bf16 numbers in tile registers. The units of a matrix are those of pairs.bf16.cc; only the tile
// differs, and with it the rows of A, which must be contiguous.

#include "kernels/cpu/gemm/kernels.h"
#include "kernels/cpu/gemm/strips.h"
#include "kernels/cpu/simd/amx_block.h"
#include "kernels/cpu/simd/attention_pairs.inc"
#include "kernels/cpu/simd/attention_transpose.inc"

namespace gpt::gemm {
namespace {

using namespace GPT_SIMD_NAMESPACE;  // NOLINT(google-build-using-namespace): the layer this unit is written
                                     // on

constexpr int64_t kStep = 16;  // units of k in a tile
constexpr int64_t kTileRows = amx::kTileRows, kBlockRows = amx::kBlockRows, kBlockCols = amx::kBlockCols;
constexpr int64_t kUnit = sizeof(uint32_t);

// The last units, of which there are less than a tile holds: with zeros behind them.
template <bool kLower>
void add_last_products(const TileArgs& t, const uint32_t* a, const uint32_t* b, int64_t units) {
  alignas(64) uint32_t last_a[kBlockRows * kStep];
  alignas(64) uint32_t last_b[kStep * kBlockCols];
  const Mask some = first_lanes(units);
  for (int64_t r = 0; r < t.rows; ++r)
    _mm512_store_si512(last_a + r * kStep, _mm512_maskz_loadu_epi32(some, a + r * t.a_row));
  for (int64_t l = 0; l < kStep; ++l) {
    for (int64_t c = 0; c < kBlockCols; c += kLanes) {
      const __m512i units_of_b =
          l < units ? _mm512_loadu_si512(b + l * kBlockCols + c) : _mm512_setzero_si512();
      _mm512_store_si512(last_b + l * kBlockCols + c, units_of_b);
    }
  }
  see_stores();
  add_products<kLower>(last_a, kStep * kUnit, last_b, kBlockCols * kUnit);
}

// Sums [rows,kBlockCols] to C.
void finish(const TileArgs& t, const float* sums) {
  for (int64_t v = 0; v < t.cols; v += kLanes) {
    const int64_t n = t.cols - v < kLanes ? t.cols - v : kLanes;
    const Vec bias = t.bias ? load_n(t.bias + v, n) : zero();
    const Mask lanes = first_lanes(n);
    for (int64_t r = 0; r < t.rows; ++r) {
      float* c = t.c + r * t.ldc + v;
      Vec sum = load(sums + r * kBlockCols + v);
      if (t.add) sum = load(c, lanes) + sum;
      store(c, sum + bias, lanes);
    }
  }
}

// What lies `ahead` bytes behind the units of B that a step takes.
void fetch(const uint32_t* b, int64_t ahead) {
  const char* p = reinterpret_cast<const char*>(b) + ahead;
  for (int64_t line = 0; line < kStep * kBlockCols * kUnit; line += 64)
    __builtin_prefetch(p + line, 0, 3);
}

template <bool kLower>
void block(const TileArgs& t) {
  alignas(64) float sums[kBlockRows * kBlockCols];
  for (int64_t r = 0; r < t.rows; ++r) {
    __builtin_prefetch(t.c + r * t.ldc, 1);
    __builtin_prefetch(t.c + r * t.ldc + kLanes, 1);
  }
  zero_sums<kLower>();
  see_stores();
  const auto* a = static_cast<const uint32_t*>(t.a);
  const auto* b = static_cast<const uint32_t*>(t.b);
  int64_t l = 0;
  for (; l + kStep <= t.k; l += kStep) {
    if (!kLower && t.ahead != 0) fetch(b + l * kBlockCols, t.ahead);
    add_products<kLower>(a + l, t.a_row * kUnit, b + l * kBlockCols, kBlockCols * kUnit);
  }
  if (l < t.k) add_last_products<kLower>(t, a + l, b + l * kBlockCols, t.k - l);
  if (t.cols == kBlockCols && !t.add && !t.bias) return store_sums<kLower>(t.c, t.ldc * kUnit);
  store_sums<kLower>(sums, kBlockCols * kUnit);
  finish(t, sums);
}

void tile(const TileArgs& t) {
  amx::configure(t.rows);
  t.rows > kTileRows ? block<true>(t) : block<false>(t);
}

// Sixteen columns, sixteen pairs of rows at a time.
template <class T>
void pack_as_rows(const PackArgs& p, int64_t first) {
  const auto* src = static_cast<const T*>(p.src) + first;
  uint32_t* dst = p.dst + first * p.width;
  const int64_t count = p.count - first < kLanes ? p.count - first : kLanes;
  Vec sum = zero();
  for (int64_t l = 0; l < p.k; l += 2 * kStep, dst += kStep) {
    Vec pairs[kStep];
    for (int64_t i = 0; i < kStep; ++i, src += 2 * p.ld) {
      const int64_t left = p.k - l - 2 * i;
      const Vec even = left > 0 ? load_n(src, count) : zero(),
                odd = left > 1 ? load_n(src + p.ld, count) : zero();
      sum = sum + even + odd;
      pairs[i] = _mm512_castsi512_ps(interleave(even, odd));
    }
    transpose(pairs);
    const int64_t units = (p.k - l + 1) / 2;
    for (int64_t i = 0; i < count; ++i)
      store_n(reinterpret_cast<float*>(dst + i * p.width), pairs[i], units < kStep ? units : kStep);
  }
  if (p.sums) store_n(p.sums + first, load_n(p.sums + first, count) + sum, count);
}

void pack_columns_as_rows(const PackArgs& p) {
  for_type(p.type, [&]<class T>(T*) {
    for (int64_t first = 0; first < p.count; first += kLanes)
      pack_as_rows<T>(p, first);
  });
}

}  // namespace

Kernels bf16_kernels_amx() {
  Kernels k = bf16_kernels_avx512();
  k.mr = kBlockRows;
  k.nr = kBlockCols;
  k.tile = tile;
  k.max_block = 256;
  k.pack_columns_as_rows = pack_columns_as_rows;
  return k;
}

}  // namespace gpt::gemm
