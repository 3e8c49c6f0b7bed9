#pragma once

// This header contains code that all row-kernel drivers share: kernel lookup, the fallback to the reference,
// and splitting rows into tasks.

#include <algorithm>

#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/simd/row_kernels.h"

namespace gpt::drivers {

// Calls X(name, ArgsType), as in ops.h, for every op that is implemented with row kernels.
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

// Each driver implements its op with the given kernels, and falls back to the reference for dtypes that the
// kernels do not support.
#define GPT_DECLARE_DRIVER(name, Args) \
  void name(const RowKernels& kernels, const ExecContext& ctx, const Args& a) noexcept;
GPT_FOR_EACH_ROW_OP(GPT_DECLARE_DRIVER)
#undef GPT_DECLARE_DRIVER
ScratchNeed norm_backward_scratch(int64_t rows, int64_t cols, DType dtype);

// Returns true if every view that is present has dtype `t`.
template <class... View>
bool all(DType t, const View&... views) {
  return ((!views || views.dtype == t) && ...);
}
template <class... View>
bool all_f32(const View&... views) {
  return all(DType::f32, views...);
}

// is_activation() returns true if `t` is a dtype of activations. stored_type() converts such a dtype to the
// Stored value that kernels expect.
inline bool is_activation(DType t) {
  return t == DType::f32 || t == DType::bf16 || t == DType::f16;
}
inline Stored stored_type(DType t) {
  return t == DType::bf16 ? Stored::bf16 : t == DType::f16 ? Stored::f16 : Stored::f32;
}

// Returns the kernels for rows of one dtype, or null if there are none.
inline const OneTypeKernels* kernels_of(const RowKernels& kernels, DType t) {
  return t == DType::f32    ? &kernels.f32
         : t == DType::bf16 ? &kernels.bf16
         : t == DType::f16  ? &kernels.f16
                            : nullptr;
}
const ActKernels& act_kernels(const OneTypeKernels& kernels, Activation act);

// Number of elements of a task. This number (64 KiB of fp32 values, about 5 us of work) is large enough to
// keep the scheduling overhead small, and small enough to balance a batch over 16 threads. A loop over at
// most this many elements runs on the calling thread.
inline constexpr int64_t kTaskElements = 16384;

// Calls fn(task) for every task in [0, n_tasks). The tasks run on the calling thread if there are at most
// kTaskElements elements in total, otherwise in the thread pool.
template <class F>
void for_tasks(const ExecContext& ctx, int64_t n_tasks, int64_t elements, F&& fn) {
  if (elements <= kTaskElements) {
    for (int64_t task = 0; task < n_tasks; ++task)
      fn(task);
  } else {
    ctx.pool.parallel_for(n_tasks, [&](int64_t task, int) { fn(task); });
  }
}

// Calls fn(row) for every row. Each row has `cols` elements. The size of the tasks depends only on the shape.
template <class F>
void for_rows(const ExecContext& ctx, int64_t rows, int64_t cols, F&& fn) {
  const int64_t per_task = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, cols));
  for_tasks(ctx, (rows + per_task - 1) / per_task, rows * cols, [&](int64_t task) {
    const int64_t end = std::min(rows, (task + 1) * per_task);
    for (int64_t r = task * per_task; r < end; ++r)
      fn(r);
  });
}

// Splits [0, size) into pieces of at most kTaskElements elements and calls fn(begin, count) for each piece.
template <class F>
void for_pieces(const ExecContext& ctx, int64_t size, F&& fn) {
  for_tasks(ctx, (size + kTaskElements - 1) / kTaskElements, size, [&](int64_t task) {
    const int64_t begin = task * kTaskElements;
    fn(begin, std::min(kTaskElements, size - begin));
  });
}

// Returns a pointer to row r of a view of any dtype, or null if the view is absent.
inline void* row_at(const TensorView& v, int64_t r) {
  return v ? static_cast<char*>(v.data) + r * v.ld * static_cast<int64_t>(dtype_size(v.dtype)) : nullptr;
}
inline float* row_or_null(const TensorView& v, int64_t r) {
  return v ? v.row<float>(r) : nullptr;
}

}  // namespace gpt::drivers
