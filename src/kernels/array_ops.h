#pragma once

// Arguments of ops (ops.h): element-wise arithmetic, copies and sums.

#include <cstdint>

#include "kernels/op_fields.h"
#include "kernels/step_state.h"
#include "tensor/device_span.h"
#include "tensor/tensor.h"

namespace gpt {

// out = a + b. out may be a or b if it has the same dtype.
struct AddArgs {
  TensorView out, a, b;  // act
  GPT_FIELDS(out, a, b)
};

// out = a_scale a (+ b_factor b_scale b). out may be a or b if it has the same dtype.
struct ScaledSumArgs {
  TensorView out, a;        // [N,C] act
  TensorView a_scale = {};  // [1]; absent: 1
  TensorView b = {};        // [N,C] act, or absent
  TensorView b_scale = {};  // [1], with b
  double b_factor = 1;
  GPT_FIELDS(out, a, a_scale, b, b_scale, b_factor)
};

// Backward pass of one term, factor scale x: dx = factor scale dout (+= with accumulate), dscale = factor
// times the sum of dout x (+= with accumulate_scale). dx may be dout.
struct ScaledSumBackwardArgs {
  TensorView dout, x, scale;
  TensorView dx;
  TensorView dscale = {};  // [1] or absent (frozen)
  double factor = 1;
  bool accumulate = false;
  bool accumulate_scale = true;
  GPT_FIELDS(dout, x, scale, dx, dscale, factor, accumulate, accumulate_scale)
};

// x = factor x, in place.
struct ScaleArgs {
  TensorView x;  // [N,C] act
  double factor;
  GPT_FIELDS(x, factor)
};

// block_sums[i] = sum of x^2 over elements [i*kSumBlock, (i+1)*kSumBlock), in double, in order.
inline constexpr int64_t kSumBlock = 16384;
struct SumSquaresArgs {
  TensorView x;                   // any shape, dense
  DeviceSpan<double> block_sums;  // [ceil(size / kSumBlock)]
  GPT_FIELDS(x, block_sums)
};

// sums[i] = sum of x^2 over elements of ranges[i], in fp32 over runs of kSumRun elements and in double over
// the runs, in order.
inline constexpr int64_t kSumRun = 1024;
struct ElementRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};
struct RangeSquaresArgs {
  TensorView x;  // [elements] fp32 or fp64
  HostSpan<ElementRange> ranges;
  DeviceSpan<double> sums;  // [ranges]
  GPT_FIELDS(x, ranges, sums)
};

// x = min(max(x, -limit), limit), in place. With a step, the limit is multiplied by its loss_scale.
struct ClampArgs {
  TensorView x;
  double limit;
  DeviceSpan<const StepState> step = {};  // [1]
  GPT_FIELDS(x, limit, step)
};

// dst = src, converted to the dtype of dst. Equal shapes; rows of dst and src may have any row stride `ld`.
struct ConvertArgs {
  TensorView dst, src;  // [N,C] act
  GPT_FIELDS(dst, src)
};

// Swaps a and b, which must not overlap.
struct SwapArgs {
  TensorView a, b;  // [N,C] of the same dtype
  GPT_FIELDS(a, b)
};

// index = the index of the first element of x, row by row, that is NaN or infinite; -1 if there is none.
struct FindNonfiniteArgs {
  TensorView x;               // [N,C] act; a transposed view is read in memory order
  DeviceSpan<int64_t> index;  // [1]
  GPT_FIELDS(x, index)
};

}  // namespace gpt
