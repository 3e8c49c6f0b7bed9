#pragma once

#include "kernels/cpu/quant/kernels.h"
#include "kernels/cpu/quant/quantize.h"

// Implements the micro-kernel for products with packed q8_0 and q4_0 weights (kernels.h shows the panel
// layout), and quantizes its activations.
//
//   for b in blocks of 32 inputs
//     s[mr][nr] = start of the row's block             int32 accumulators
//     for k-packs of 4 inputs
//       s[mr][nr] += dot of 4 activations (broadcast) with 4 weights of every output
//     acc[mr][nr] += d_w[nr] d_x[mr] * s[mr][nr]       fp32 accumulators
//
//   a block of a row of activations:   | d_x | start | 8 k-packs |     start = -zero point * sum of q
//
// This header is only included by sources that are compiled once for each instruction set.

namespace gpt::quant {
namespace {

// `Weights` holds a k-pack of 4 weights (unsigned bytes) in every lane. `Activations` holds a k-pack of 4
// activations, the same in every lane.
#if defined(GPT_SIMD_BF16)

// AVX512_VNNI multiplies and adds four bytes per lane in one instruction. Activations are stored as bytes.
struct Weights {
  IVec bytes;
};
struct Activations {
  IVec bytes;
};
constexpr int kActPackBytes = 4;  // bytes of a k-pack of activations in memory

inline Weights load_q8(const uint8_t* p) {
  return {load_i(p)};
}
// Loads the bytes at p and separates their low and high halves.
inline void load_q4(const uint8_t* p, Weights& low, Weights& high) {
  const IVec bytes = load_i(p), mask = set1_i8(15);
  low = {and_i(bytes, mask)};
  high = {and_i(shift_right_i16<4>(bytes), mask)};
}
inline Activations broadcast_activations(const uint8_t* p) {
  return {set1_i(load_as<int32_t>(p))};
}
inline IVec dot4(IVec acc, Weights w, Activations x) {
  return _mm512_dpbusd_epi32(acc, w.bytes, x.bytes);
}
inline void store_activations(uint8_t* p, IVec q) {
  store_i8(p, q);
}

#else

// Without VNNI, bytes are widened to 16 bits, and the even and odd bytes of a k-pack are separated.
// Activations are stored in 16 bits in that order.
struct Weights {
  IVec even, odd;
};
struct Activations {
  IVec even, odd;
};
constexpr int kActPackBytes = 8;

inline Weights load_q8(const uint8_t* p) {
  const IVec bytes = load_i(p);
  return {and_i(bytes, set1_i16(0xff)), shift_right_i16<8>(bytes)};
}
inline void load_q4(const uint8_t* p, Weights& low, Weights& high) {
  const IVec bytes = load_i(p), mask = set1_i16(15);
  low = {and_i(bytes, mask), and_i(shift_right_i16<8>(bytes), mask)};
  high = {and_i(shift_right_i16<4>(bytes), mask), shift_right_i16<12>(bytes)};
}
inline Activations broadcast_activations(const uint8_t* p) {
  return {set1_i(load_as<int32_t>(p)), set1_i(load_as<int32_t>(p + 4))};
}
inline IVec dot4(IVec acc, Weights w, Activations x) {
  return add_i(add_i(acc, madd_i16(w.even, x.even)), madd_i16(w.odd, x.odd));
}
inline void store_activations(uint8_t* p, IVec q) {
#if defined(GPT_SIMD_AVX512)
  const IVec even_first = _mm512_shuffle_epi32(q, static_cast<_MM_PERM_ENUM>(0xd8));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(even_first));
#else
  const IVec even_first = _mm256_shuffle_epi32(q, 0xd8);
  const IVec packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(even_first, even_first), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
#endif
}

#endif

constexpr int kActScale = 0, kActStart = 4, kActData = 8;  // byte offsets in a block
constexpr int kPacks = 8;                                  // k-packs of a block of 32
constexpr int kActBlock = kActData + kPacks * kActPackBytes;
static_assert(kActBlock <= kMaxActBlockBytes);

// The micro-tile has an int32 and an fp32 accumulator for each of kMr x kVecs vectors. A multiplication has a
// latency of 4 to 5 cycles, and one (512 bits) or two (256 bits) start per cycle, so about 8 independent
// accumulators are needed. The micro-tile has as many accumulators as fit into registers next to the weights
// of a k-pack.
#if defined(GPT_SIMD_BF16)
constexpr int kMr = 6, kVecs = 2;
#else
constexpr int kMr = 2, kVecs = 2;
#endif
constexpr int kPanelVecs = static_cast<int>(kNr) / kLanes;
constexpr int kPackBytes = static_cast<int>(kNr) * 4;  // bytes of a k-pack of all columns

void quantize(const QuantizeArgs& a) {
  const auto* x = static_cast<const uint8_t*>(a.x);
  auto* dst = static_cast<uint8_t*>(a.dst);
  for (int64_t i = 0; i < a.n; i += 32, x += 32 * size_of(a.dtype), dst += kActBlock) {
    const QuantizedBlock block = quantize_block(
        x, a.dtype, [&](int64_t j, IVec q) { store_activations(dst + kActData + j / 4 * kActPackBytes, q); });
    const int32_t start = -zero_point(a.w) * block.sum();
    __builtin_memcpy(dst + kActScale, &block.d, sizeof block.d);
    __builtin_memcpy(dst + kActStart, &start, sizeof start);
  }
}

template <int R, int V>
using IntAccumulators = IVec[R][V];

// Adds the products of k-pack g of the activations at x with the weights w.
template <int R, int V>
inline void add_pack(const PanelArgs& a, const uint8_t* x, int g, const Weights (&w)[V],
                     IntAccumulators<R, V>& sum) {
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    const Activations q = broadcast_activations(x + r * a.x_stride + kActData + g * kActPackBytes);
    GPT_UNROLL
    for (int v = 0; v < V; ++v)
      sum[r][v] = dot4(sum[r][v], w[v], q);
  }
}

// Adds the products of the 32 inputs of a block. w: first k-pack of the block.
template <DType dtype, int R, int V>
inline void add_block(const PanelArgs& a, const uint8_t* x, const uint8_t* w, IntAccumulators<R, V>& sum) {
  if constexpr (dtype == DType::q8_0) {
    GPT_UNROLL
    for (int g = 0; g < kPacks; ++g, w += kPackBytes) {
      Weights q[V];
      GPT_UNROLL
      for (int v = 0; v < V; ++v)
        q[v] = load_q8(w + v * kLanes * 4);
      add_pack<R, V>(a, x, g, q, sum);
    }
  } else {
    GPT_UNROLL
    for (int g = 0; g < kPacks / 2; ++g, w += kPackBytes) {
      Weights low[V], high[V];
      GPT_UNROLL
      for (int v = 0; v < V; ++v)
        load_q4(w + v * kLanes * 4, low[v], high[v]);
      add_pack<R, V>(a, x, g, low, sum);
      add_pack<R, V>(a, x, g + kPacks / 2, high, sum);
    }
  }
}

// Stores the first n values of the vectors.
template <int V>
inline void store_first(const Vec (&x)[V], int64_t n, uint8_t* y, DType dtype) {
  const int64_t size = size_of(dtype);
  const bool whole = n >= V * kLanes;
  alignas(64) uint8_t narrow[V * kLanes * 4];
  uint8_t* dst = whole ? y : narrow;
  GPT_UNROLL
  for (int v = 0; v < V; ++v)
    store_float(dst + v * kLanes * size, dtype, x[v]);
  if (!whole) __builtin_memcpy(y, narrow, static_cast<size_t>(n * size));
}

template <int V>
inline void load_first(const float* x, int64_t n, Vec (&v)[V]) {
  alignas(64) float padded[V * kLanes] = {};
  if (n < V * kLanes) {
    __builtin_memcpy(padded, x, static_cast<size_t>(n) * sizeof(float));
    x = padded;
  }
  GPT_UNROLL
  for (int i = 0; i < V; ++i)
    v[i] = load(x + i * kLanes);
}

void store_row(const float* x, int64_t n, uint8_t* y, DType dtype) {
  Vec v[kPanelVecs];
  load_first<kPanelVecs>(x, n, v);
  store_first<kPanelVecs>(v, n, y, dtype);
}

// Adds the bias and stores the valid columns of a row.
template <int V>
inline void finish_row(const PanelArgs& a, Vec (&sum)[V], uint8_t* y, int first) {
  const int64_t from = first * kLanes;
  if (from >= a.cols) return;
  if (a.bias) {
    Vec bias[V];
    load_first<V>(a.bias + from, a.cols - from, bias);
    GPT_UNROLL
    for (int v = 0; v < V; ++v)
      sum[v] = sum[v] + bias[v];
  }
  store_first<V>(sum, a.cols - from, y + from * size_of(a.y_dtype), a.y_dtype);
}

// Prefetches the lines of y that a micro-tile will write, while the tile is computed, because a store miss
// would delay later stores.
template <int R, int V>
inline void prefetch_result(const PanelArgs& a, const uint8_t* y, int first) {
  constexpr int64_t kLine = 64;
  const int64_t size = size_of(a.y_dtype);
  y += first * kLanes * size;
  for (int r = 0; r < R; ++r, y += a.y_stride) {
    for (int64_t at = 0; at < V * kLanes * size; at += kLine)
      __builtin_prefetch(y + at, 1);
  }
}

// The cache lines that a micro-tile prefetches into L2: every `step`-th line starting at `first`, `distance`
// bytes ahead. A distance of 0 means no prefetch.
struct Prefetch {
  int64_t distance, first, step;
};

inline Vec load_f16(const uint8_t* p) {
  return load(reinterpret_cast<const F16*>(p));
}

// Computes vectors [first, first + V) of R rows of y.
template <DType dtype, int R, int V>
void micro_kernel(const PanelArgs& a, const uint8_t* x, uint8_t* y, int first, const Prefetch& prefetch) {
  constexpr int64_t kBlockBytes = panel_block_bytes(dtype);
  Vec acc[R][V];
  clear(acc);
  const uint8_t* w = a.w;
  prefetch_result<R, V>(a, y, first);
  for (int64_t b = 0; b < a.blocks; ++b, w += kBlockBytes, x += kActBlock) {
    if (prefetch.distance != 0) {
      for (int64_t i = prefetch.first; i < kBlockBytes; i += prefetch.step)
        __builtin_prefetch(w + prefetch.distance + i, 0, 2);
    }
    IntAccumulators<R, V> sum;
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      GPT_UNROLL
      for (int v = 0; v < V; ++v)
        sum[r][v] = set1_i(load_as<int32_t>(x + r * a.x_stride + kActStart));
    }
    add_block<dtype, R, V>(a, x, w + kScaleBytes + first * kLanes * 4, sum);
    Vec d[V];
    GPT_UNROLL
    for (int v = 0; v < V; ++v)
      d[v] = load_f16(w + (first + v) * kLanes * 2);
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      const Vec scale = set1(load_as<float>(x + r * a.x_stride + kActScale));
      GPT_UNROLL
      for (int v = 0; v < V; ++v)
        acc[r][v] = fma(d[v] * scale, to_float(sum[r][v]), acc[r][v]);
    }
  }
  GPT_UNROLL
  for (int r = 0; r < R; ++r)
    finish_row<V>(a, acc[r], y + r * a.y_stride, first);
}

using MicroKernel = void (*)(const PanelArgs&, const uint8_t* x, uint8_t* y, int first, const Prefetch&);

// Returns the micro-kernel for `rows` rows, where 1 <= rows <= R.
template <DType dtype, int R>
MicroKernel pick_micro_kernel(int64_t rows) {
  if constexpr (R > 1) {
    if (rows < R) return pick_micro_kernel<dtype, R - 1>(rows);
  }
  return micro_kernel<dtype, R, kVecs>;
}

// Multiplies all rows of x with a panel. If several micro-tiles share the panel, each of them prefetches its
// share of the next panel. With a single micro-tile, the caller provides the prefetch distance.
void multiply_panel(const PanelArgs& a) {
  constexpr int64_t kLine = 64;
  const int64_t tiles = (a.rows + kMr - 1) / kMr * (kPanelVecs / kVecs);
  const bool one_tile = a.rows <= kMr;
  Prefetch prefetch = {one_tile ? a.prefetch_distance : a.blocks * panel_block_bytes(a.dtype), 0,
                       one_tile ? kLine : tiles * kLine};
  for (int64_t r = 0; r < a.rows; r += kMr) {
    const int64_t rows = a.rows - r < kMr ? a.rows - r : kMr;
    const MicroKernel f = a.dtype == DType::q8_0 ? pick_micro_kernel<DType::q8_0, kMr>(rows)
                                                 : pick_micro_kernel<DType::q4_0, kMr>(rows);
    for (int first = 0; first < kPanelVecs; first += kVecs) {
      f(a, a.x + r * a.x_stride, a.y + r * a.y_stride, first, prefetch);
      prefetch.first += kLine;
    }
  }
}

}  // namespace
}  // namespace gpt::quant
