#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace gpt::quant {

// The kernels of quantised products: plain functions on raw memory, one set per instruction set.
//
// A packed matrix is a row of strips of 32 outputs, the last one filled up with zeros. A strip is, for each
// block of 32 inputs, the 32 scales (fp16), then groups of 4 bytes for each of the 32 outputs: bytes that
// one instruction multiplies with 4 broadcast activations.
//   Q8_0  8 groups; byte i of group g is q[4 g + i] + 128
//   Q4_0  4 groups; byte i of group g is q[4 g + i] in its low and q[16 + 4 g + i] in its high half
// Both are unsigned, z = 128 or 8 above what they stand for; the sums start from -z times the sum of the
// activations of the block instead.
inline constexpr int64_t kStrip = 32;
inline constexpr int64_t kScaleBytes = 2 * kStrip;

constexpr int64_t strip_block_bytes(DType dtype) {
  return kScaleBytes + kStrip * (dtype == DType::q8_0 ? 32 : 16);
}
constexpr int32_t zero_point(DType dtype) {
  return dtype == DType::q8_0 ? 128 : 8;
}

// A row of activations to its blocks in dst.
struct QuantizeArgs {
  const void* x;  // fp32, bf16 or fp16
  DType dtype;
  int64_t n;  // a multiple of 32
  int32_t zero_point;
  void* dst;
};

// y[rows, cols] = x w^T (+ bias) for one strip of w.
struct StripArgs {
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
  // Few rows of x pass a strip once, at the speed of memory: what lies so many bytes ahead of where they are
  // is then fetched, the next strips; 0: the processor alone does that better.
  int64_t ahead = 0;
};

// Rows of blocks as files have them. Activations of such a product: groups of 16 blocks, the last one filled
// up with zeros.
inline constexpr int64_t kRowActGroupBytes = 16 * 52;
constexpr int64_t row_act_bytes(int64_t blocks) {
  return (blocks + 15) / 16 * kRowActGroupBytes;
}
inline constexpr int kRowsAtOnce = 4;

// y[rows, outputs] = x w^T (+ bias).
struct RowArgs {
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

// Many rows of x: some rows of w are first expanded to bytes and scales in memory of the caller, `w_stride`
// bytes for each, groups of 16 blocks like the activations.
inline constexpr int64_t kExpandedGroupBytes = 16 * 48;
constexpr int64_t expanded_bytes(int64_t blocks) {
  return (blocks + 15) / 16 * kExpandedGroupBytes;
}
inline constexpr int64_t kExpandedOutputs = 4;
struct RowTileArgs {
  DType dtype;  // of the source
  int64_t rows;
  int64_t outputs;  // at most kExpandedOutputs
  int64_t blocks;   // of 32 inputs
  const uint8_t* x;
  int64_t x_stride;  // bytes from row to row
  const uint8_t* source;
  int64_t source_stride;  // bytes from row to row
  uint8_t* w;
  int64_t w_stride;
  const float* bias;  // or null
  float* y;
  int64_t y_stride;  // elements from row to row
};

struct QuantKernel {
  int64_t act_block_bytes;  // of 32 quantised activations
  void (*quantize)(const QuantizeArgs&);
  void (*strip)(const StripArgs&);
  void (*store)(const float* x, int64_t n, uint8_t* y, DType dtype);  // converts; n <= 32
  void (*quantize_rows)(const QuantizeArgs&);                         // for multiply_rows; no zero_point
  void (*multiply_rows)(const RowArgs&);
  void (*quantize_turned_rows)(const QuantizeArgs&);  // for multiply_row_tiles; no zero_point
  void (*multiply_row_tiles)(const RowTileArgs&);
};
inline constexpr int64_t kMaxActBlockBytes = 72;

QuantKernel quant_kernel_avx2();
QuantKernel quant_kernel_avx512();
QuantKernel quant_kernel_avx512bf16();

}  // namespace gpt::quant
