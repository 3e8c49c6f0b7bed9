#include "kernels/cpu/gemm/gemm.h"

#include <algorithm>

#include "kernels/cpu/gemm/onednn.h"
#include "kernels/cpu/gemm/packed.h"
#include "kernels/cpu/gemm/split.h"

namespace gpt::gemm {
namespace {

// The sum over nothing.
void multiply_empty(const Product& p) {
  for (int64_t i = 0; i < p.m; ++i) {
    float* c = p.c + i * p.ldc;
    for (int64_t j = 0; j < p.n; ++j) {
      const float sum = p.accumulate ? c[j] : 0;
      c[j] = p.bias ? sum + p.bias[j] : sum;
    }
  }
}

}  // namespace

void sum_parts(const ExecContext& ctx, const Product& p, const float* parts, int64_t n_parts) {
  constexpr int64_t kRowsPerTask = 8;
  ctx.pool.parallel_for(ceil_div(p.m, kRowsPerTask), [&](int64_t task, int) {
    const int64_t end = std::min(p.m, (task + 1) * kRowsPerTask);
    for (int64_t i = task * kRowsPerTask; i < end; ++i) {
      float* c = p.c + i * p.ldc;
      for (int64_t j = 0; j < p.n; ++j) {
        float sum = parts[i * p.n + j];
        for (int64_t s = 1; s < n_parts; ++s)
          sum += parts[(s * p.m + i) * p.n + j];
        if (p.accumulate) sum += c[j];
        c[j] = p.bias ? sum + p.bias[j] : sum;
      }
    }
  });
}

// Measured (docs/log.md): the packed kernel is faster where B must be transposed, because it packs B
// once for all tiles, and oneDNN's inner loop is faster otherwise.
void multiply(const ExecContext& ctx, Isa isa, const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    multiply_empty(p);
  } else if (onednn_serves(isa) && !p.b.transposed && !p.bias) {
    onednn_multiply(ctx, p);
  } else {
    packed_multiply(ctx, isa, p);
  }
}

ScratchNeed scratch_need(int64_t m, int64_t n, int64_t k) {
  if (m == 0 || n == 0 || k == 0) return {};
  return max_need(packed_scratch(m, n, k), {.shared = split_scratch(m, n, k)});
}

}  // namespace gpt::gemm
