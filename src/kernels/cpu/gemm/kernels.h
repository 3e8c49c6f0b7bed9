#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace gpt::gemm {

// The inner loops of matrix products. Operands are made of units of four bytes, which hold `per_unit`
// elements that are neighbours along k: one fp32 number, or two bf16 numbers. A k that is no multiple is
// filled up with zeros. B is first brought into strips of `nr` columns, unit after unit, so that the loop
// reads it in order; A is read in place where its rows are units already.
//
// Every element of C is a sum over k in order, in blocks that depend on k alone (k_block), whose sums are
// added in order, whatever the size and position of the tile it is computed in. So the bits of a row of C
// depend on that row of A, on B and on k alone.

// What a strip's units are made of.
enum class Form : uint8_t {
  f32,
  f32_of_bf16,  // rounded to bf16, kept as fp32
  f32_of_f16,
  bf16_pairs,
};

// Packs one strip: unit l of column i becomes dst[l * width + i]; from count to width, which is a multiple of
// four, there are zeros.
struct PackArgs {
  const void* src;
  DType type;  // f32, bf16 or f16
  int64_t ld;
  bool k_contiguous;  // element (i, l) is src[i * ld + l], else src[l * ld + i]
  int64_t count;
  int64_t k;  // elements
  int64_t width;
  uint32_t* dst;
  float* sums = nullptr;  // [count]: adds the elements, not rounded, over k; not if k_contiguous
};

// Turns rows of k elements into rows of units.
struct UnitRowsArgs {
  const void* src;
  DType type;
  int64_t ld;
  int64_t rows;
  int64_t k;  // elements
  uint32_t* dst;
  int64_t dst_ld;  // units
};

inline constexpr int64_t kFewRows = 4;
inline constexpr int64_t kFetchUnits = 8;

// C[rows, cols] = A B (+ C) (+ bias) for rows <= mr, cols <= nr.
struct TileArgs {
  int64_t rows, cols;
  int64_t k;  // units
  const void* a;
  int64_t a_row, a_unit;  // units from row to row, and along k
  // Memory that will be needed soon, fetched on the way: a line per unit of k, of `next_rows` rows in turn
  // that are `next_row` units apart.
  const void* next;
  int64_t next_row, next_rows;
  // Not null: for every kFetchUnits units of k a line of `next`, to be written, and one from here on, to be
  // read. Tiles of all rows and columns only.
  const void* next_b = nullptr;
  const void* b;  // a strip's units
  DType b_type;   // f32; or bf16 or f16: elements that become units, of up to kFewRows rows with fp32 units
  // Of a plain tile: B as PackArgs has it.
  int64_t b_ld;
  bool b_k_contiguous;
  int64_t ahead;  // bytes: B so far ahead is fetched, by tiles of up to kFewRows rows; 0: nothing
  float* c;
  int64_t ldc;
  const float* bias;  // null: none
  bool add;           // to what C holds
};

// dst[rows, cols] = src (+ dst), converting.
struct ConvertArgs {
  int64_t rows, cols;
  const void* src;
  DType src_type;
  int64_t src_ld;
  void* dst;
  DType dst_type;
  int64_t dst_ld;
  bool add;
};

struct Kernels {
  int64_t mr, nr, per_unit;
  void (*pack)(Form form, const PackArgs&);
  void (*unit_rows)(Form form, const UnitRowsArgs&);
  void (*tile)(const TileArgs&);
  void (*convert)(const ConvertArgs&);
  // Units of k whose products are summed before they are added to C. Sums of such sums round less than one
  // long chain; shorter blocks would pass over C more often.
  int64_t max_block = 512;
  // Whether tiles of rows fetch C of the next tile and B of the next strip (next_b): right where the
  // third-level cache is far away and two multiply-adds start in a cycle, so that a fetch in every step would
  // not be free.
  bool fetch_ahead = false;
  // Where a tile wants every row of A contiguous (a_unit 1): packs columns of the source as such rows, unit l
  // of column i to dst[i * width + l]. Null: any a_unit will do.
  void (*pack_columns_as_rows)(const PackArgs&) = nullptr;
  // A tile of fp32 units with a B that is not packed and whose elements (b_type) need no rounding: they are
  // read where they are. Right for up to kPlainRows rows. Null: none.
  void (*plain_tile)(const TileArgs&) = nullptr;
};
inline constexpr int64_t kPlainRows = 16;
inline constexpr int64_t kPlainColumns = 128;  // of a tile, where they lie side by side

Kernels fp32_kernels_avx2();
Kernels fp32_kernels_avx512();
Kernels bf16_kernels_avx512();  // units are bf16_pairs; rounds like the processor
Kernels bf16_kernels_amx();     // the same units; a tile's rows of A must have theirs one behind the other

}  // namespace gpt::gemm
