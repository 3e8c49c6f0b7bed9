#include <algorithm>

#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/quant/quant.h"

// The linear ops of the kernel table for fp32; other types go to the reference.

namespace gpt {
namespace {

using gemm::Operand;
using gemm::Product;

constexpr int64_t kBiasRows = 64;  // rows of dy per task of the bias gradient's columns
constexpr int64_t kBiasCols = 64;

const KernelTable& reference() {
  static const KernelTable table = ref::table();
  return table;
}

bool all_fp32(std::initializer_list<TensorView> views) {
  return std::all_of(views.begin(), views.end(), [](const TensorView& v) { return v.dtype == DType::f32; });
}

Operand operand(const TensorView& t, bool transposed = false) {
  return {t.as<float>(), t.ld, transposed};
}

// The packed kernel, which computes x w^T, keeps row_invariant without being asked.
template <Isa isa>
void linear_forward(const ExecContext& ctx, const LinearArgs& args) noexcept {
  if (args.packed && is_quantized(args.packed->dtype)) return quant::linear_forward(ctx, args);
  if (!all_fp32({args.y, args.x}) || args.packed || args.act) return reference().linear_forward(ctx, args);
  gemm::multiply(ctx, isa,
                 {.m = args.y.rows(),
                  .n = args.y.cols(),
                  .k = args.x.cols(),
                  .a = operand(args.x),
                  .b = operand(args.w, true),
                  .c = args.y.as<float>(),
                  .ldc = args.y.ld,
                  .bias = args.bias.as<float>()});
}

template <Isa isa>
void linear_backward_input(const ExecContext& ctx, const LinearBackwardInputArgs& args) noexcept {
  if (!all_fp32({args.dx, args.dy}) || args.packed || args.act)
    return reference().linear_backward_input(ctx, args);
  gemm::multiply(ctx, isa,
                 {.m = args.dx.rows(),
                  .n = args.dx.cols(),
                  .k = args.dy.cols(),
                  .a = operand(args.dy),
                  .b = operand(args.w),
                  .c = args.dx.as<float>(),
                  .ldc = args.dx.ld,
                  .accumulate = args.accumulate});
}

void bias_gradient(const ExecContext& ctx, const LinearBackwardWeightArgs& args) {
  const int64_t n = args.dy.cols();
  ctx.pool.parallel_for((n + kBiasCols - 1) / kBiasCols, [&](int64_t task, int) {
    const int64_t from = task * kBiasCols;
    const int64_t width = std::min(kBiasCols, n - from);
    float* db = args.dbias.as<float>() + from;
    float total[kBiasCols] = {};
    for (int64_t row = 0; row < args.dy.rows(); row += kBiasRows) {
      float sum[kBiasCols] = {};
      for (int64_t i = row; i < std::min(row + kBiasRows, args.dy.rows()); ++i) {
        const float* dy = args.dy.row<float>(i) + from;
        for (int64_t j = 0; j < width; ++j)
          sum[j] += dy[j];
      }
      for (int64_t j = 0; j < width; ++j)
        total[j] += sum[j];
    }
    for (int64_t j = 0; j < width; ++j)
      db[j] = args.accumulate ? db[j] + total[j] : total[j];
  });
}

template <Isa isa>
void linear_backward_weight(const ExecContext& ctx, const LinearBackwardWeightArgs& args) noexcept {
  if (!all_fp32({args.dw, args.dy, args.x}) || args.compute != DType::f32)
    return reference().linear_backward_weight(ctx, args);
  gemm::multiply(ctx, isa,
                 {.m = args.dw.rows(),
                  .n = args.dw.cols(),
                  .k = args.dy.rows(),
                  .a = operand(args.dy, true),
                  .b = operand(args.x),
                  .c = args.dw.as<float>(),
                  .ldc = args.dw.ld,
                  .accumulate = args.accumulate,
                  .may_split_k = true});
  if (args.dbias) bias_gradient(ctx, args);
}

void pack_matrix(const ExecContext& ctx, const PackMatrixArgs& args) noexcept {
  if (is_quantized(args.dst->dtype)) return quant::pack_matrix(ctx, args);
  reference().pack_matrix(ctx, args);
}

template <Isa isa>
void overlay(KernelTable& table) {
  table.linear_forward = linear_forward<isa>;
  table.linear_backward_input = linear_backward_input<isa>;
  table.linear_backward_weight = linear_backward_weight<isa>;
  table.pack_matrix = pack_matrix;
}

}  // namespace

void overlay_gemm(KernelTable& table, Isa isa) {
  if (isa == Isa::avx2) overlay<Isa::avx2>(table);
  if (isa >= Isa::avx512) overlay<Isa::avx512>(table);
}

ScratchNeed linear_scratch(int64_t rows, int64_t out, int64_t in, DType dtype) {
  if (is_quantized(dtype)) return quant::scratch_need(rows, in);
  if (dtype != DType::f32) return {};
  return max_need(gemm::scratch_need(rows, out, in),
                  max_need(gemm::scratch_need(rows, in, out), gemm::scratch_need(out, in, rows)));
}

}  // namespace gpt
