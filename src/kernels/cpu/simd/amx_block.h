#pragma once

#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/simd/vec.h"

// What products do with a block of C (see amx_tiles.h). Internal to the *.amx.cc. Strides are in bytes;
// without kLower C has no more than the rows of the upper tiles. The compiler does not know that tiles are
// loaded from memory: see_stores() goes between stores and such loads.
namespace gpt::GPT_SIMD_NAMESPACE {

GPT_INLINE void see_stores() {
  __asm__ volatile("" ::: "memory");
}

template <class T>
GPT_INLINE T* lower_rows(T* p, int64_t row) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(amx::kTileRows * row));
}

template <bool kLower>
GPT_INLINE void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  if (kLower) _tile_zero(2);
  if (kLower) _tile_zero(3);
}

template <bool kLower>
GPT_INLINE void load_sums(const float* c, int64_t c_row) {
  _tile_loadd(0, c, c_row);
  _tile_loadd(1, c + amx::kTileRows, c_row);
  if (kLower) _tile_loadd(2, lower_rows(c, c_row), c_row);
  if (kLower) _tile_loadd(3, lower_rows(c, c_row) + amx::kTileRows, c_row);
}

template <bool kLower>
GPT_INLINE void store_sums(float* c, int64_t c_row) {
  _tile_stored(0, c, c_row);
  _tile_stored(1, c + amx::kTileRows, c_row);
  if (kLower) _tile_stored(2, lower_rows(c, c_row), c_row);
  if (kLower) _tile_stored(3, lower_rows(c, c_row) + amx::kTileRows, c_row);
}

// Adds the products of 32 bf16 numbers of each row of A with 16 rows of pairs of B.
template <bool kLower>
GPT_INLINE void add_products(const uint32_t* a, int64_t a_row, const uint32_t* b, int64_t b_row) {
  _tile_loadd(6, b, b_row);
  _tile_loadd(4, a, a_row);
  _tile_loadd(7, b + amx::kTileRows, b_row);
  _tile_dpbf16ps(0, 4, 6);
  if (kLower) _tile_loadd(5, lower_rows(a, a_row), a_row);
  _tile_dpbf16ps(1, 4, 7);
  if (kLower) _tile_dpbf16ps(2, 5, 6);
  if (kLower) _tile_dpbf16ps(3, 5, 7);
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
