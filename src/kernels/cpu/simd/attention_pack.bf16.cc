// Packs operands in bf16, as 32-bit words of two values (see attention_kernels.h).
#include "kernels/cpu/simd/attention_internal.h"
#include "kernels/cpu/simd/bf16_pairs.h"

namespace gpt::GPT_SIMD_NAMESPACE {

// Copies rows unchanged, `ld` elements apart.
void pack_a(const PackRows& src, void* dst, int64_t ld) {
  auto* to = static_cast<Bf16*>(dst);
  for (int64_t i = 0; i < src.n; ++i, to += ld) {
    prefetch<Bf16>(src, i, 0, src.cols);
    const Bf16* row = source_row<Bf16>(src, i);
    int64_t c = 0;
    for (; c + kLanes < src.cols; c += kBf16Lanes)
      _mm512_storeu_si512(to + c, load_row(row, c, src.cols));
    if (c >= src.cols) continue;
    const __m512i last = load_row(row, c, src.cols);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + c), _mm512_castsi512_si256(last));
  }
}

// Packs to dst [ceil(cols/2),kKeyTile] words: word c of a column holds elements 2c and 2c + 1 of a row.
// Vectors that only contain rows past n are not written.
void pack_b_transposed(const PackRows& src, void* dst) {
  auto* to = static_cast<uint32_t*>(dst);
  const int64_t words = (src.cols + 1) / 2;
  for (int64_t first = 0; first < src.n; first += kLanes) {
    for (int64_t w = 0; w < words; w += kLanes) {
      Vec block[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        prefetch<Bf16>(src, first + i, 2 * w, least(2 * (w + kLanes), src.cols));
        const Bf16* row = source_row<Bf16>(src, first + i);
        block[i] = _mm512_castsi512_ps(load_row(row, 2 * w, src.cols));
      }
      transpose(block);
      const int64_t n = least(words - w, kLanes);
      for (int64_t i = 0; i < n; ++i)
        _mm512_storeu_ps(to + (w + i) * kKeyTile + first, block[i]);
    }
  }
}

// Packs to dst [ceil(n/2),dp] words: word c of row i holds elements c of source rows 2i and 2i + 1.
void pack_b(const PackRows& src, void* dst, int64_t dp) {
  auto* to = static_cast<uint32_t*>(dst);
  for (int64_t i = 0; i < src.n; i += 2, to += dp) {
    prefetch<Bf16>(src, i, 0, src.cols);
    if (i + 1 < src.n) prefetch<Bf16>(src, i + 1, 0, src.cols);
    const Bf16* even = source_row<Bf16>(src, i);
    const Bf16* odd = i + 1 < src.n ? source_row<Bf16>(src, i + 1) : nullptr;
    for (int64_t c = 0; c < dp; c += kBf16Lanes) {
      const __m512i a = load_row(even, c, src.cols), b = load_row(odd, c, src.cols);
      _mm512_storeu_si512(to + c, interleave_low(a, b));
      if (c + kLanes < dp) _mm512_storeu_si512(to + c + kLanes, interleave_high(a, b));
    }
  }
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
