#pragma once

// Argument structs of the ops (ops.h) for element-wise arithmetic, copies and sums.

#include <cstdint>

#include "kernels/op_fields.h"
#include "kernels/step_state.h"
#include "tensor/device_span.h"
#include "tensor/tensor.h"

namespace gpt {

// Computes out = a + b. out may alias a or b if the dtypes are equal.
struct AddArgs {
  TensorView out, a, b;  // act
  GPT_FIELDS(out, a, b)
};

// Computes out = a_scale a, or out = a_scale a + b_factor b_scale b if b is given. out may alias a or b if
// the dtypes are equal.
struct ScaledSumArgs {
  TensorView out, a;        // [N,C] act
  TensorView a_scale = {};  // [1]; 1 if absent
  TensorView b = {};        // [N,C] act, or absent
  TensorView b_scale = {};  // [1]; required with b
  double b_factor = 1;
  GPT_FIELDS(out, a, a_scale, b, b_scale, b_factor)
};

// Backward pass of scaled_sum for one of its terms, which has the form factor * scale * x. Computes dx =
// factor scale dout and dscale = factor sum(dout x). With `accumulate`, the result is added to dx; with
// `accumulate_scale`, it is added to dscale. dx may alias dout.
struct ScaledSumBackwardArgs {
  TensorView dout, x, scale;
  TensorView dx;
  TensorView dscale = {};  // [1] or absent (frozen)
  double factor = 1;
  bool accumulate = false;
  bool accumulate_scale = true;
  GPT_FIELDS(dout, x, scale, dx, dscale, factor, accumulate, accumulate_scale)
};

// Multiplies x by `factor`, in place.
struct ScaleArgs {
  TensorView x;  // [N,C] act
  double factor;
  GPT_FIELDS(x, factor)
};

// Computes block_sums[i], the sum of x^2 over elements [i*kSumBlock, (i+1)*kSumBlock). Each sum is computed
// in double and in order.
inline constexpr int64_t kSumBlock = 16384;
struct SumSquaresArgs {
  TensorView x;                   // any shape, dense
  DeviceSpan<double> block_sums;  // [ceil(size / kSumBlock)]
  GPT_FIELDS(x, block_sums)
};

// Computes sums[i], the sum of x^2 over the elements of ranges[i]. Each run of kSumRun elements is added in
// fp32; the sums of the runs are added in double, in order.
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

// Clamps x to [-limit, limit], in place. If `step` is given, the limit is first multiplied by the loss_scale
// of the step.
struct ClampArgs {
  TensorView x;
  double limit;
  DeviceSpan<const StepState> step = {};  // [1]
  GPT_FIELDS(x, limit, step)
};

// Copies src to dst and converts it to the dtype of dst. The shapes must be equal; each view may have its own
// row stride `ld`.
struct ConvertArgs {
  TensorView dst, src;  // [N,C] act
  GPT_FIELDS(dst, src)
};

// Swaps a and b, which must not overlap.
struct SwapArgs {
  TensorView a, b;  // [N,C] of the same dtype
  GPT_FIELDS(a, b)
};

// Finds the first NaN or infinite element of x, in row-major order. `index` receives the position of this
// element, or -1 if all elements are finite.
struct FindNonfiniteArgs {
  TensorView x;               // [N,C] act; a transposed view is searched in memory order
  DeviceSpan<int64_t> index;  // [1]
  GPT_FIELDS(x, index)
};

}  // namespace gpt
