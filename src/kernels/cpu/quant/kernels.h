#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace gpt::quant {

// Kernels for products with quantized weights (defined in kernels/quant.h). They are plain functions on raw
// memory, one set for each instruction set. There are two kinds of kernels.
//
// The first kind uses packed weights, q8_0 or q4_0 (packed_kernel.h). Packed weights consist of panels of nr
// = 32 outputs; the last panel is padded with zeros.
//
//   a panel, for each block of 32 inputs:
//
//     | d of output 0        | d of output 1        | ... | d of output 31        |    fp16
//     | k-pack 0 of output 0 | k-pack 0 of output 1 | ... | k-pack 0 of output 31 |    4 bytes each
//     | k-pack 1 of output 0 | k-pack 1 of output 1 | ... | k-pack 1 of output 31 |
//     ...
//
// One instruction multiplies the k-packs of several outputs with the same 4 activations, which are broadcast
// to all lanes.
//
//   Q8_0  8 k-packs; byte i of k-pack g is q[4 g + i] + 128
//   Q4_0  4 k-packs; byte i of k-pack g is q[4 g + i] in its low and q[16 + 4 g + i] in its high half
//
// Both dtypes store unsigned values with a zero point z, which is 128 for Q8_0 and 8 for Q4_0. Integer sums
// therefore start at -z times the sum of the block's activations.
//
// The second kind uses quantized rows of any dtype in file layout (block_rows.h; block_panels.h for 8 or more
// rows of x).
inline constexpr int64_t kNr = 32;
inline constexpr int64_t kScaleBytes = 2 * kNr;

constexpr int64_t panel_block_bytes(DType dtype) {
  return kScaleBytes + kNr * (dtype == DType::q8_0 ? 32 : 16);
}
constexpr int32_t zero_point(DType dtype) {
  return dtype == DType::q8_0 ? 128 : 8;
}

// Arguments for quantizing a row of activations to blocks in dst.
struct QuantizeArgs {
  const void* x;  // fp32, bf16 or fp16
  DType dtype;
  int64_t n;  // a multiple of 32
  DType w;    // dtype of the weights
  void* dst;
};

// Arguments of y[rows, cols] = x w^T (+ bias) for one panel of w.
struct PanelArgs {
  DType dtype;  // of w
  int64_t rows, cols;
  int64_t blocks;  // number of blocks of 32 inputs
  const uint8_t* x;
  int64_t x_stride;  // row stride in bytes
  const uint8_t* w;
  const float* bias;  // or null
  uint8_t* y;
  DType y_dtype;     // fp32, bf16 or fp16
  int64_t y_stride;  // row stride in bytes
  // Prefetch distance for w, in bytes. Used for few rows of x, when reading w takes most of the time. 0: no
  // software prefetching, because hardware prefetching is faster.
  int64_t prefetch_distance = 0;
};

// Returns true if a byte holds two 4-bit values. The low half holds value j of a block, and the high half
// holds value j + 16. In super-blocks, the low half holds value j of an even block, and the high half holds
// value j of the next block.
constexpr bool has_halves(DType blocks) {
  return blocks != DType::q8_0 && blocks != DType::q6_k;
}

// Returns the size of a row of activations for multiply_rows, in bytes. Activations are stored in groups of
// 16 blocks; the last group is padded with zeros.
inline constexpr int64_t kRowActGroupBytes = 16 * 52;
constexpr int64_t row_act_bytes(int64_t blocks) {
  return (blocks + 15) / 16 * kRowActGroupBytes;
}
inline constexpr int kRowsAtOnce = 4;

// Arguments of y[rows, outputs] = x w^T (+ bias) with quantized rows in w.
struct BlockRowsArgs {
  DType dtype;   // of w
  int64_t rows;  // at most kRowsAtOnce
  int64_t outputs;
  int64_t blocks;  // number of blocks of 32 inputs
  const uint8_t* x;
  int64_t x_stride;  // row stride in bytes
  const uint8_t* w;
  int64_t w_stride;   // row stride in bytes
  const float* bias;  // or null
  float* y;
  int64_t y_stride;  // row stride in elements
};

// For many rows of x, expand_panel first expands kNr rows of w to a panel of bytes and scales. The caller
// provides expanded_bytes() bytes of memory for the panel. In multiply_expanded, PanelArgs::w points to the
// panel.
inline constexpr int64_t kPanelActBlock = 48;             // bytes per 32 activations
inline constexpr int64_t kExpandedBlockBytes = 44 * kNr;  // maximum bytes per 32 inputs
constexpr int64_t expanded_bytes(int64_t blocks) {
  return blocks * kExpandedBlockBytes;
}
struct ExpandArgs {
  DType dtype;
  int64_t outputs;  // at most kNr
  int64_t blocks;   // number of blocks of 32 inputs
  const uint8_t* w;
  int64_t w_stride;  // row stride in bytes
  uint8_t* panel;
};

struct QuantKernel {
  int64_t act_block_bytes;  // bytes per 32 quantized activations
  void (*quantize)(const QuantizeArgs&);
  void (*multiply_panel)(const PanelArgs&);
  void (*store)(const float* x, int64_t n, uint8_t* y, DType dtype);  // converts n <= 32 values
  void (*quantize_rows)(const QuantizeArgs&);                         // quantizes x for multiply_rows
  void (*multiply_rows)(const BlockRowsArgs&);
  void (*quantize_for_panels)(const QuantizeArgs&);  // quantizes x for multiply_expanded
  void (*expand_panel)(const ExpandArgs&);
  void (*multiply_expanded)(const PanelArgs&);
};
inline constexpr int64_t kMaxActBlockBytes = 72;

QuantKernel quant_kernel_avx2();
QuantKernel quant_kernel_avx512();
QuantKernel quant_kernel_avx512bf16();

}  // namespace gpt::quant
