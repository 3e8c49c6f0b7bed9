#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/layout.h"

// Computes y = x x^T as a product with packed x that skips the micro-tiles above the diagonal.

namespace gpt::gemm {
namespace {

// Copies the elements below the diagonal to their mirrored positions above it. Tasks only write above the
// diagonal and only read below it, so they do not conflict.
void mirror(const ExecContext& ctx, const TensorView& y) {
  constexpr int64_t kTile = 16;
  const int64_t n = y.rows();
  ctx.pool.parallel_for(ceil_div(n, kTile), [&](int64_t task, int) {
    const int64_t first = task * kTile, end = std::min(n, first + kTile);
    for (int64_t from = first; from < n; from += kTile) {
      for (int64_t r = first; r < end; ++r) {
        for (int64_t c = std::max(from, r + 1); c < std::min(n, from + kTile); ++c)
          y.row<float>(r)[c] = y.row<float>(c)[r];
      }
    }
  });
}

}  // namespace

void syrk(const ExecContext& ctx, Isa isa, const SyrkArgs& args) {
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(syrk_scratch(isa, args.x.rows(), args.x.cols(), args.compute)));
  PackedMatrix packed{
      .data = ctx.scratch.shared, .dtype = args.compute, .out = args.x.rows(), .in = args.x.cols()};
  pack_weights(ctx, isa, {.dst = packed, .parts = {&args.x, 1}});
  gemm(ctx, isa, {.compute = args.compute, .y = args.y, .a = args.x, .packed = &packed, .lower = true});
  mirror(ctx, args.y);
}

ScratchNeed syrk_scratch(Isa isa, int64_t rows, int64_t cols, DType compute) {
  ScratchNeed need = gemm_scratch(rows, rows, cols);
  need.shared += packed_size(isa, {.dtype = compute, .out = rows, .in = cols});
  return need;
}

}  // namespace gpt::gemm
