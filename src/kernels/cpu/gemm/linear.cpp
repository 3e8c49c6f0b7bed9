#include "kernels/cpu/ref/ref.h"

#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/layout.h"
#include "kernels/cpu/quant/quant.h"

// Implements the linear ops of the kernel table. Calls with fp64 views run the reference.

namespace gpt {
namespace {

const KernelTable& reference() {
  static const KernelTable table = ref::table();
  return table;
}

// Returns the dtype in which a product is computed.
DType compute_type(const TensorView& w, const PackedMatrix& packed, std::optional<DType> wanted = {}) {
  return packed ? packed.dtype : wanted.value_or(w.dtype);
}

// The kernel always guarantees row_invariant, so it does not check the flag.
template <Isa isa>
void linear_forward(const ExecContext& ctx, const LinearArgs& args) noexcept {
  if (args.packed && is_quantized(args.packed.dtype)) return quant::linear_forward(ctx, args);
  if (is_quantized(args.w.dtype)) return quant::linear_forward_rows(ctx, args);
  const DType compute = compute_type(args.w, args.packed, args.compute);
  if (!gemm::has_layout(isa, compute))
    return fall_back(ctx, "linear_forward", reference().linear_forward, args);
  gemm::gemm(ctx, isa,
             {.compute = compute,
              .y = args.y,
              .a = args.x,
              .packed = args.packed ? &args.packed : nullptr,
              .b = args.w,
              .bias = args.bias.as<float>(),
              .act = args.act,
              .pre = args.pre});
}

template <Isa isa>
void linear_backward_input(const ExecContext& ctx, const LinearBackwardInputArgs& args) noexcept {
  const bool in_blocks = is_quantized(args.w.dtype);
  const DType compute = in_blocks ? DType::f32 : compute_type(args.w, args.packed);
  if (args.dx.dtype == DType::f64 || !gemm::has_layout(isa, compute))
    return fall_back(ctx, "linear_backward_input", reference().linear_backward_input, args);
  gemm::gemm(ctx, isa,
             {.compute = compute,
              .y = args.dx,
              .a = args.dy,
              .packed = args.packed ? &args.packed : nullptr,
              .b = args.w,
              .b_transposed = true,
              .accumulate = args.accumulate,
              .act = args.act,
              .backward = true,
              .pre = args.pre});
}

template <Isa isa>
void linear_backward_weight(const ExecContext& ctx, const LinearBackwardWeightArgs& args) noexcept {
  if (args.dw.dtype == DType::f64 || !gemm::has_layout(isa, args.compute))
    return fall_back(ctx, "linear_backward_weight", reference().linear_backward_weight, args);
  gemm::weight_gradient(ctx, isa, args);
}

template <Isa isa>
void pack_matrix(const ExecContext& ctx, const PackMatrixArgs& args) noexcept {
  if (is_quantized(args.dst.dtype)) return quant::pack_matrix(ctx, args);
  if (!gemm::has_layout(isa, args.dst.dtype))
    return fall_back(ctx, "pack_matrix", reference().pack_matrix, args);
  gemm::pack_weights(ctx, isa, args);
}

template <Isa isa>
void syrk(const ExecContext& ctx, const SyrkArgs& args) noexcept {
  if (args.y.dtype == DType::f64 || !gemm::has_layout(isa, args.compute))
    return fall_back(ctx, "syrk", reference().syrk, args);
  gemm::syrk(ctx, isa, args);
}

template <Isa isa>
ScratchNeed syrk_scratch(int64_t rows, int64_t cols, DType compute) {
  return compute == DType::f64 ? ScratchNeed{} : gemm::syrk_scratch(isa, rows, cols, compute);
}

ScratchNeed linear_scratch(int64_t rows, int64_t out, int64_t in, DType dtype, bool backward) {
  if (dtype == DType::f64) return ref::linear_scratch(rows, out, in, dtype, backward);
  if (backward)
    return max_need(gemm::gemm_scratch(rows, in, out), gemm::weight_gradient_scratch(rows, out, in));
  return is_quantized(dtype) ? quant::scratch_need(rows, in) : gemm::gemm_scratch(rows, out, in);
}

template <Isa isa>
int64_t packed_bytes(DType dtype, int64_t out, int64_t in, bool transposed) {
  if (is_quantized(dtype)) return transposed ? 0 : quant::packed_bytes(dtype, out, in);
  if (!gemm::has_layout(isa, dtype)) return ref::packed_bytes(dtype, out, in, transposed);
  return gemm::packed_size(isa, {.dtype = dtype, .out = out, .in = in, .transposed = transposed});
}

template <Isa isa>
void overlay(KernelTable& table) {
  table.linear_scratch = linear_scratch;
  table.packed_bytes = packed_bytes<isa>;
  table.linear_forward = linear_forward<isa>;
  table.linear_backward_input = linear_backward_input<isa>;
  table.linear_backward_weight = linear_backward_weight<isa>;
  table.pack_matrix = pack_matrix<isa>;
  table.syrk = syrk<isa>;
  table.syrk_scratch = syrk_scratch<isa>;
}

}  // namespace

void overlay_gemm(KernelTable& table, Isa isa) {
  if (isa == Isa::avx2) overlay<Isa::avx2>(table);
  if (isa == Isa::avx512) overlay<Isa::avx512>(table);
  if (isa == Isa::avx512bf16) overlay<Isa::avx512bf16>(table);
  if (isa == Isa::amx) overlay<Isa::amx>(table);
}

}  // namespace gpt
