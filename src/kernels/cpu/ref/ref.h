#pragma once

// Shared by the reference ops: dispatch on float or double, and the list of functions in the table.

#include <algorithm>

#include "base/error.h"
#include "kernels/kernel_table.h"

namespace gpt::ref {

// Calls f with a value of the element type; the reference ops exist for fp32 and fp64.
template <class F>
void dispatch(DType dtype, F&& f) {
  if (dtype == DType::f64) {
    f(double{});
  } else {
    GPT_ASSERT(dtype == DType::f32);
    f(float{});
  }
}

// Element i of an optional vector, or `absent`.
template <class T>
T at_or(const TensorView& v, int64_t i, T absent) {
  return v ? v.as<T>()[i] : absent;
}

// Runs fn(row) for all rows, several rows per task so that short rows are not all overhead.
template <class F>
void for_rows(const ExecContext& ctx, int64_t rows, F&& fn) {
  constexpr int64_t kRowsPerTask = 8;
  ctx.pool.parallel_for((rows + kRowsPerTask - 1) / kRowsPerTask, [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * kRowsPerTask);
    for (int64_t r = task * kRowsPerTask; r < end; ++r)
      fn(r);
  });
}

#define GPT_REF_DECLARE(name, Args) void name(const ExecContext& ctx, const Args& a) noexcept;
GPT_FOR_EACH_OP(GPT_REF_DECLARE)
#undef GPT_REF_DECLARE

}  // namespace gpt::ref
