#pragma once

// Common code of the row-kernel drivers: kernels, the reference as fallback, splitting of rows into tasks.

#include <algorithm>

#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/simd/row_kernels.h"

namespace gpt::drivers {

// The ops implemented with row kernels; X(name, ArgsType) as in ops.h.
#define GPT_FOR_EACH_ROW_OP(X)                 \
  X(embedding_forward, EmbeddingArgs)          \
  X(embedding_backward, EmbeddingBackwardArgs) \
  X(norm_forward, NormArgs)                    \
  X(norm_backward, NormBackwardArgs)           \
  X(act_forward, ActArgs)                      \
  X(act_backward, ActBackwardArgs)             \
  X(rope, RopeArgs)                            \
  X(qk_norm_forward, QkNormArgs)               \
  X(qk_norm_backward, QkNormBackwardArgs)      \
  X(dropout, DropoutArgs)                      \
  X(scatter_rows, ScatterRowsArgs)             \
  X(softcap, SoftcapArgs)                      \
  X(cross_entropy, CrossEntropyArgs)           \
  X(add, AddArgs)                              \
  X(sum_squares, SumSquaresArgs)               \
  X(clamp, ClampArgs)                          \
  X(convert, ConvertArgs)                      \
  X(adamw, AdamWArgs)

// Each implements its op with the given kernels, and calls the reference for dtypes that these do not
// support.
#define GPT_DECLARE_DRIVER(name, Args) \
  void name(const RowKernels& kernels, const ExecContext& ctx, const Args& a) noexcept;
GPT_FOR_EACH_ROW_OP(GPT_DECLARE_DRIVER)
#undef GPT_DECLARE_DRIVER
ScratchNeed norm_backward_scratch(int64_t rows, int64_t cols, DType dtype);

// Returns whether all present views have dtype `t`.
template <class... View>
bool all(DType t, const View&... views) {
  return ((!views || views.dtype == t) && ...);
}
template <class... View>
bool all_f32(const View&... views) {
  return all(DType::f32, views...);
}

// Return whether `t` is a dtype of activations, and its Stored value for kernels.
inline bool is_activation(DType t) {
  return t == DType::f32 || t == DType::bf16 || t == DType::f16;
}
inline Stored stored_type(DType t) {
  return t == DType::bf16 ? Stored::bf16 : t == DType::f16 ? Stored::f16 : Stored::f32;
}

// Returns the kernels for rows of one dtype; null if there are none.
inline const OneTypeKernels* kernels_of(const RowKernels& kernels, DType t) {
  return t == DType::f32    ? &kernels.f32
         : t == DType::bf16 ? &kernels.bf16
         : t == DType::f16  ? &kernels.f16
                            : nullptr;
}
const ActKernels& act_kernels(const OneTypeKernels& kernels, Activation act);

// Elements of a task: large enough that scheduling overhead is small (64 KiB take about 5 us), small enough
// to balance a batch over 16 threads. Work of at most one task runs on the calling thread.
inline constexpr int64_t kTaskElements = 16384;

// Calls fn(task) for every task in [0, n_tasks), in the thread pool unless the total work is tiny.
template <class F>
void for_tasks(const ExecContext& ctx, int64_t n_tasks, int64_t elements, F&& fn) {
  if (elements <= kTaskElements) {
    for (int64_t task = 0; task < n_tasks; ++task)
      fn(task);
  } else {
    ctx.pool.parallel_for(n_tasks, [&](int64_t task, int) { fn(task); });
  }
}

// Calls fn(row) for all rows of `cols` elements, in tasks whose size depends only on the shape.
template <class F>
void for_rows(const ExecContext& ctx, int64_t rows, int64_t cols, F&& fn) {
  const int64_t per_task = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, cols));
  for_tasks(ctx, (rows + per_task - 1) / per_task, rows * cols, [&](int64_t task) {
    const int64_t end = std::min(rows, (task + 1) * per_task);
    for (int64_t r = task * per_task; r < end; ++r)
      fn(r);
  });
}

// Calls fn(begin, count) for pieces of [0, size).
template <class F>
void for_pieces(const ExecContext& ctx, int64_t size, F&& fn) {
  for_tasks(ctx, (size + kTaskElements - 1) / kTaskElements, size, [&](int64_t task) {
    const int64_t begin = task * kTaskElements;
    fn(begin, std::min(kTaskElements, size - begin));
  });
}

// Returns row r of a view of any dtype; null if the view is absent.
inline void* row_at(const TensorView& v, int64_t r) {
  return v ? static_cast<char*>(v.data) + r * v.ld * static_cast<int64_t>(dtype_size(v.dtype)) : nullptr;
}
inline float* row_or_null(const TensorView& v, int64_t r) {
  return v ? v.row<float>(r) : nullptr;
}

}  // namespace gpt::drivers
