#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace gpt::quant {

// Kernels of products with quantized weights (defined in kernels/quant.h): plain functions on raw memory, one
// set for each instruction set. There are two kinds.
//
// Packed weights, q8_0 or q4_0 (packed_kernel.h): panels of nr = 32 outputs, the last one padded with zeros.
//
//   a panel, for each block of 32 inputs:
//
//     | d of output 0        | d of output 1        | ... | d of output 31        |    fp16
//     | k-pack 0 of output 0 | k-pack 0 of output 1 | ... | k-pack 0 of output 31 |    4 bytes each
//     | k-pack 1 of output 0 | k-pack 1 of output 1 | ... | k-pack 1 of output 31 |
//     ...
//
// One instruction multiplies k-packs of several outputs with the same 4 activations, broadcast.
//
//   Q8_0  8 k-packs; byte i of k-pack g is q[4 g + i] + 128
//   Q4_0  4 k-packs; byte i of k-pack g is q[4 g + i] in its low and q[16 + 4 g + i] in its high half
//
// Both are unsigned with the zero point z = 128 or 8. Integer sums therefore start at -z times the sum of the
// activations of the block.
//
// Quantized rows of all dtypes in file layout (block_rows.h; block_panels.h for 8 and more rows of x).
inline constexpr int64_t kNr = 32;
inline constexpr int64_t kScaleBytes = 2 * kNr;

constexpr int64_t panel_block_bytes(DType dtype) {
  return kScaleBytes + kNr * (dtype == DType::q8_0 ? 32 : 16);
}
constexpr int32_t zero_point(DType dtype) {
  return dtype == DType::q8_0 ? 128 : 8;
}

// Quantizes a row of activations to blocks in dst.
struct QuantizeArgs {
  const void* x;  // fp32, bf16 or fp16
  DType dtype;
  int64_t n;  // a multiple of 32
  DType w;    // dtype of the weights
  void* dst;
};

// y[rows, cols] = x w^T (+ bias) for one panel of w.
struct PanelArgs {
  DType dtype;  // of w
  int64_t rows, cols;
  int64_t blocks;  // of 32 inputs
  const uint8_t* x;
  int64_t x_stride;  // bytes from row to row
  const uint8_t* w;
  const float* bias;  // or null
  uint8_t* y;
  DType y_dtype;     // fp32, bf16 or fp16
  int64_t y_stride;  // bytes from row to row
  // Prefetch distance in w in bytes, for few rows of x, when reading w dominates; 0: hardware prefetching is
  // better.
  int64_t prefetch_distance = 0;
};

// Returns whether a byte holds two 4-bit values: value j of a block in the low half and value j + 16 in the
// high half, or, in super-blocks, value j of an even block and value j of the next block.
constexpr bool has_halves(DType blocks) {
  return blocks != DType::q8_0 && blocks != DType::q6_k;
}

// Activations for quantized rows: groups of 16 blocks, the last one padded with zeros.
inline constexpr int64_t kRowActGroupBytes = 16 * 52;
constexpr int64_t row_act_bytes(int64_t blocks) {
  return (blocks + 15) / 16 * kRowActGroupBytes;
}
inline constexpr int kRowsAtOnce = 4;

// y[rows, outputs] = x w^T (+ bias).
struct BlockRowsArgs {
  DType dtype;   // of w
  int64_t rows;  // at most kRowsAtOnce
  int64_t outputs;
  int64_t blocks;  // of 32 inputs
  const uint8_t* x;
  int64_t x_stride;  // bytes from row to row
  const uint8_t* w;
  int64_t w_stride;   // bytes from row to row
  const float* bias;  // or null
  float* y;
  int64_t y_stride;  // elements from row to row
};

// For many rows of x, kNr rows of w are first expanded to a panel of bytes and scales, in expanded_bytes() of
// memory provided by the caller. PanelArgs::w then points to the panel.
inline constexpr int64_t kPanelActBlock = 48;             // bytes of 32 activations
inline constexpr int64_t kExpandedBlockBytes = 44 * kNr;  // maximum bytes of 32 inputs
constexpr int64_t expanded_bytes(int64_t blocks) {
  return blocks * kExpandedBlockBytes;
}
struct ExpandArgs {
  DType dtype;
  int64_t outputs;  // at most kNr
  int64_t blocks;   // of 32 inputs
  const uint8_t* w;
  int64_t w_stride;  // bytes from row to row
  uint8_t* panel;
};

struct QuantKernel {
  int64_t act_block_bytes;  // bytes of 32 quantized activations
  void (*quantize)(const QuantizeArgs&);
  void (*multiply_panel)(const PanelArgs&);
  void (*store)(const float* x, int64_t n, uint8_t* y, DType dtype);  // converts; n <= 32
  void (*quantize_rows)(const QuantizeArgs&);                         // for multiply_rows
  void (*multiply_rows)(const BlockRowsArgs&);
  void (*quantize_for_panels)(const QuantizeArgs&);  // for multiply_expanded
  void (*expand_panel)(const ExpandArgs&);
  void (*multiply_expanded)(const PanelArgs&);
};
inline constexpr int64_t kMaxActBlockBytes = 72;

QuantKernel quant_kernel_avx2();
QuantKernel quant_kernel_avx512();
QuantKernel quant_kernel_avx512bf16();

}  // namespace gpt::quant
