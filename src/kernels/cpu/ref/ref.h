#pragma once

// This header contains code that all reference ops share: dispatch on float or double, access to elements,
// and the functions of the kernel table.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "kernels/cpu/op_args.h"
#include "kernels/kernel_table.h"
#include "tensor/half.h"

namespace gpt::ref {

// Calls f with a value of the type that the op uses for its arithmetic: double for fp64 activations, else
// float.
template <class F>
void dispatch(const ExecContext& ctx, DType dtype, F&& f, const char* op = __builtin_FUNCTION()) {
  if (dtype == DType::f64) {
    f(double{});
  } else if (dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16) {
    f(float{});
  } else {
    ctx.device.set_error({.op = op, .what = "activations have a floating-point type"});
  }
}

// Returns element (r,c) of an activation. Uses memcpy, because views of different dtypes may share memory
// (cross_entropy).
template <class Stored>
Stored stored(const TensorView& v, int64_t r, int64_t c) {
  Stored x;
  std::memcpy(&x, v.row<Stored>(r) + c, sizeof x);
  return x;
}
template <class T = double>
T get(const TensorView& v, int64_t r, int64_t c) {
  switch (v.dtype) {
    case DType::f64:
      return static_cast<T>(stored<double>(v, r, c));
    case DType::bf16:
      return to_float(stored<bf16>(v, r, c));
    case DType::f16:
      return to_float(stored<f16>(v, r, c));
    default:
      return stored<float>(v, r, c);
  }
}
inline void set(const TensorView& v, int64_t r, int64_t c, double x) {
  const auto put = [&](auto y) { std::memcpy(v.row<decltype(y)>(r) + c, &y, sizeof y); };
  switch (v.dtype) {
    case DType::f64:
      return put(x);
    case DType::bf16:
      return put(to_bf16(static_cast<float>(x)));
    case DType::f16:
      return put(to_f16(static_cast<float>(x)));
    default:
      return put(static_cast<float>(x));
  }
}
// Returns x rounded to dtype `t`.
template <class T>
T rounded(T x, DType t) {
  if (t == DType::bf16) return to_float(to_bf16(static_cast<float>(x)));
  if (t == DType::f16) return to_float(to_f16(static_cast<float>(x)));
  return x;
}

// Returns element i of a vector, or the value `absent` if the vector is absent.
template <class T = double>
T at_or(const TensorView& v, int64_t i, std::type_identity_t<T> absent) {
  return v ? get<T>(v, 0, i) : absent;
}

// Calls fn(row) for all rows. Each task processes several rows, to reduce the scheduling overhead.
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

// Functions of the kernel table. In the reference, a packed matrix consists of plain rows.
ScratchNeed linear_scratch(int64_t rows, int64_t out, int64_t in, DType dtype, bool backward);
ScratchNeed attention_scratch(const AttentionShape& shape, int64_t max_q, int64_t max_kv, bool backward,
                              DType dtype);
ScratchNeed select_candidates_scratch(int64_t vocab_size);
ScratchNeed syrk_scratch(int64_t rows, int64_t cols, DType compute);
int64_t packed_bytes(DType dtype, int64_t out, int64_t in, bool transposed);

}  // namespace gpt::ref
