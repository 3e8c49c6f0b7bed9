#pragma once

#include "kernels/cpu/simd/vec.h"

#ifdef GPT_EMULATE_AMX
#include "kernels/cpu/simd/amx_emulated.h"
#endif

// Functions for matrix products in AMX tile registers, for the *.amx.cc sources.

// A tile register holds up to 16 rows of 64 bytes (Intel SDM volume 1, chapter 18). All kernels assign the
// tile registers in the same way. A block of C of up to 32 x 32 uses tiles 0 and 1 for its upper rows and
// tiles 2 and 3 for its lower rows. Operand A uses tiles 4 (upper rows) and 5 (lower rows). Operand B uses
// tiles 6 (left columns) and 7 (right columns).
namespace gpt::amx {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileBytes = 64;
inline constexpr int64_t kBlockRows = 2 * kTileRows;  // rows of a block of C
inline constexpr int64_t kBlockCols = 2 * kTileRows;  // columns of a block of C

// Configures the tiles of the calling thread for blocks of `rows` <= kBlockRows rows. Tiles 0, 1 and 4 hold
// the upper rows, tiles 2, 3 and 5 the rest. The call is almost free if the tiles already have this
// configuration.
void configure(int64_t rows) noexcept;

}  // namespace gpt::amx

// These functions operate on a block of C. Strides are in bytes. If kLower is false, C only has the rows of
// the upper tiles. The compiler does not know that tile loads read memory, so see_stores() must be called
// between stores and tile loads.
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

// Multiplies 32 bf16 values of each row of A with 16 rows of bf16 pairs of B, and adds the products to C.
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

// Arguments of the product C [rows,cols] = A B, or C += A B if `add` is set. A is a matrix [rows, 32 steps]
// of bf16 values; B is a matrix [16 steps, cols] of words that hold bf16 pairs. rows must be at most 32 and
// cols must be a multiple of 32. lda, ldb, ldc: row strides in words.
struct TileProduct {
  int64_t rows, cols, steps;
  const uint32_t* a;
  int64_t lda;
  const uint32_t* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
  bool add;
};

template <bool kLower>
GPT_INLINE void multiply_block(const TileProduct& p, const uint32_t* b, float* c) {
  constexpr int64_t kWord = sizeof(uint32_t);
  p.add ? load_sums<kLower>(c, p.ldc * kWord) : zero_sums<kLower>();
  const uint32_t* a = p.a;
  for (int64_t k = 0; k < p.steps; ++k, a += amx::kTileRows, b += amx::kTileRows * p.ldb)
    add_products<kLower>(a, p.lda * kWord, b, p.ldb * kWord);
  store_sums<kLower>(c, p.ldc * kWord);
}

GPT_INLINE void multiply_tiles(const TileProduct& p) {
  amx::configure(p.rows);
  see_stores();
  for (int64_t col = 0; col < p.cols; col += amx::kBlockCols) {
    if (p.rows > amx::kTileRows) {
      multiply_block<true>(p, p.b + col, p.c + col);
    } else {
      multiply_block<false>(p, p.b + col, p.c + col);
    }
  }
}

// Number of elements along the inner dimension in one step of a product.
static constexpr int64_t kStepElements = 32;

GPT_INLINE int64_t whole_steps(int64_t n) {
  return (n + kStepElements - 1) / kStepElements;
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
