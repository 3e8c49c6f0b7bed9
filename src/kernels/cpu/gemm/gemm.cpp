#include "kernels/cpu/gemm/gemm.h"

#include <algorithm>

#include "kernels/cpu/gemm/onednn.h"

namespace gpt::gemm {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// How a product is cut: tiles of tile_m x tile_n of C, and k in pieces of tile_k whose sums are added in
// order. A function of the shape alone.
struct Grid {
  int64_t tile_m, tile_n, tile_k;
  int64_t n_m, n_n, n_k;
};

Grid make_grid(int64_t m, int64_t n, int64_t k) {
  Grid g{};
  g.tile_m = std::max<int64_t>(48, ceil_div(ceil_div(m, 16), 16) * 16);
  g.tile_n = n;
  g.tile_k = k;
  if (m * n <= 64 * 128 && k >= 2048) g.tile_k = 512;
  g.n_m = ceil_div(m, g.tile_m);
  g.n_n = ceil_div(n, g.tile_n);
  g.n_k = std::max<int64_t>(1, ceil_div(k, g.tile_k));
  return g;
}

void add_bias(const Product& p) {
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j)
      p.c[i * p.ldc + j] += p.bias[j];
  }
}

void sum_partials(const ExecContext& ctx, const Product& p, const Grid& g) {
  const float* parts = ctx.scratch.all<float>();
  ctx.pool.parallel_for(p.m, [&](int64_t i, int) {
    for (int64_t j = 0; j < p.n; ++j) {
      float sum = parts[i * p.n + j];
      for (int64_t s = 1; s < g.n_k; ++s)
        sum += parts[(s * p.m + i) * p.n + j];
      float& c = p.c[i * p.ldc + j];
      if (p.accumulate) sum += c;
      c = p.bias ? sum + p.bias[j] : sum;
    }
  });
}

}  // namespace

void multiply(const ExecContext& ctx, Isa, const Product& p) {
  const Grid g = make_grid(p.m, p.n, p.k);
  ctx.pool.parallel_for(g.n_m * g.n_n * g.n_k, [&](int64_t task, int) {
    const int64_t s = task % g.n_k;
    const int64_t i = task / g.n_k % g.n_m * g.tile_m;
    const int64_t j = task / g.n_k / g.n_m * g.tile_n;
    const int64_t l = s * g.tile_k;
    Product tile = p;
    tile.m = std::min(g.tile_m, p.m - i);
    tile.n = std::min(g.tile_n, p.n - j);
    tile.k = std::min(g.tile_k, p.k - l);
    tile.a = p.a.at(i, l);
    tile.b = p.b.at(l, j);
    tile.bias = p.bias ? p.bias + j : nullptr;
    tile.c = p.c + i * p.ldc + j;
    if (g.n_k > 1) {
      tile.c = ctx.scratch.all<float>() + (s * p.m + i) * p.n + j;
      tile.ldc = p.n;
      tile.bias = nullptr;
      tile.accumulate = false;
    }
    onednn_multiply(tile);
    if (tile.bias) add_bias(tile);
  });
  if (g.n_k > 1) sum_partials(ctx, p, g);
}

ScratchNeed scratch_need(int64_t m, int64_t n, int64_t k) {
  const Grid g = make_grid(m, n, k);
  return {.shared = g.n_k > 1 ? g.n_k * m * n * static_cast<int64_t>(sizeof(float)) : 0};
}

}  // namespace gpt::gemm
