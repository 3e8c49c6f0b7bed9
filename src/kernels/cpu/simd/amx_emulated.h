#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

// Emulates AMX instructions in software, to test tile kernels on a CPU with AVX512_BF16 but without AMX
// (-DGPT_EMULATE_AMX=ON). The emulation follows Intel SDM volume 2, TILELOADD to TDPBUSD, except for the
// order in which the terms of a product are added. That order may also differ between CPUs.
namespace gpt::amx {

struct Tile {
  int64_t rows;  // 0: the tile is not configured; a real CPU would raise #UD
  alignas(64) uint32_t words[16][16];
};

extern thread_local Tile tiles[8];

// Returns tile i, which must be configured.
inline Tile& emulated_tile(int i) noexcept {
  if (tiles[i].rows == 0) __builtin_trap();
  return tiles[i];
}

// configuration: the 64-byte operand of LDTILECFG. All tiles have rows of 64 bytes.
inline void emulated_configure(const void* configuration) noexcept {
  constexpr int kRowsAt = 48;
  std::memset(tiles, 0, sizeof tiles);
  for (int i = 0; i < 8; ++i)
    tiles[i].rows = static_cast<const uint8_t*>(configuration)[kRowsAt + i];
}

inline void emulated_zero(int i) noexcept {
  std::memset(emulated_tile(i).words, 0, sizeof tiles[i].words);
}

// Loads a tile. Rows past the configured number of rows become zero.
inline void emulated_load(int i, const void* from, int64_t stride) noexcept {
  emulated_zero(i);
  for (int64_t r = 0; r < tiles[i].rows; ++r)
    std::memcpy(tiles[i].words[r], static_cast<const char*>(from) + r * stride, sizeof tiles[i].words[r]);
}

inline void emulated_store(int i, void* to, int64_t stride) noexcept {
  const Tile& t = emulated_tile(i);
  for (int64_t r = 0; r < t.rows; ++r)
    std::memcpy(static_cast<char*>(to) + r * stride, t.words[r], sizeof t.words[r]);
}

// Computes c += a b. Calls multiply_add(sums, words of a, words of b) for each row of c.
template <class MultiplyAdd>
void emulated_product(int c, int a, int b, const MultiplyAdd& multiply_add) noexcept {
  Tile& sums = emulated_tile(c);
  const Tile &left = emulated_tile(a), &right = emulated_tile(b);
  if (sums.rows != left.rows) __builtin_trap();
  for (int64_t r = 0; r < sums.rows; ++r) {
    __m512i row = _mm512_load_si512(sums.words[r]);
    for (int64_t k = 0; k < right.rows; ++k)
      row = multiply_add(row, _mm512_set1_epi32(static_cast<int>(left.words[r][k])),
                         _mm512_load_si512(right.words[k]));
    _mm512_store_si512(sums.words[r], row);
  }
}

inline void emulated_dpbf16ps(int c, int a, int b) noexcept {
  emulated_product(c, a, b, [](__m512i sums, __m512i x, __m512i y) {
    return _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sums), reinterpret_cast<__m512bh>(x),
                                                reinterpret_cast<__m512bh>(y)));
  });
}

inline void emulated_dpbusd(int c, int a, int b) noexcept {
  emulated_product(c, a, b,
                   [](__m512i sums, __m512i x, __m512i y) { return _mm512_dpbusd_epi32(sums, x, y); });
}

}  // namespace gpt::amx

#undef _tile_loadconfig
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbusd
#define _tile_loadconfig(c) gpt::amx::emulated_configure(c)
#define _tile_zero(t) gpt::amx::emulated_zero(t)
#define _tile_loadd(t, from, stride) gpt::amx::emulated_load(t, from, stride)
#define _tile_stored(t, to, stride) gpt::amx::emulated_store(t, to, stride)
#define _tile_dpbf16ps(c, a, b) gpt::amx::emulated_dpbf16ps(c, a, b)
#define _tile_dpbusd(c, a, b) gpt::amx::emulated_dpbusd(c, a, b)
