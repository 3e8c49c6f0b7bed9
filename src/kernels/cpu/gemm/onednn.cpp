#include "kernels/cpu/gemm/onednn.h"

#ifdef GPT_HAVE_ONEDNN
#include <dlfcn.h>
#include <dnnl.h>

#include <algorithm>

#include "kernels/cpu/gemm/split.h"
#endif

namespace gpt::gemm {

#ifdef GPT_HAVE_ONEDNN

namespace {

// Tiles are cut by the shape alone. oneDNN packs both operands again for every tile: narrower tiles would
// spend more on that, fewer would leave threads without work.
constexpr int64_t kTile = 48;
constexpr int64_t kMaxTilesDown = 16;
constexpr int64_t kMinTiles = 8;

struct Grid {
  int64_t tile_m, tile_n, n_m, n_n;
};

Grid make_grid(int64_t m, int64_t n) {
  Grid g{};
  const auto cut = [](int64_t size, int64_t pieces) { return round_up(ceil_div(size, pieces), 16); };
  g.tile_m = cut(m, std::clamp<int64_t>(m / kTile, 1, kMaxTilesDown));
  g.n_m = ceil_div(m, g.tile_m);
  g.tile_n = cut(n, std::clamp<int64_t>(n / kTile, 1, ceil_div(kMinTiles, g.n_m)));
  g.n_n = ceil_div(n, g.tile_n);
  return g;
}

// A thread that OpenMP has not seen yet starts with the default team, whatever other threads have set,
// and oneDNN would cut the product by the number of cores. The function is looked up where oneDNN finds
// its own, so that both mean the same run-time library; another oneDNN may have none.
void stay_on_this_thread() {
  thread_local bool done = false;
  if (done) return;
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(1);
  done = true;
}

void multiply_slowly(const Product& p) {
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      float sum = p.accumulate ? p.c[i * p.ldc + j] : 0;
      for (int64_t l = 0; l < p.k; ++l)
        sum += *p.a.at(i, l).data * *p.b.at(l, j).data;
      p.c[i * p.ldc + j] = sum;
    }
  }
}

void multiply_tile(const Product& p) {
  stay_on_this_thread();
  const dnnl_status_t status =
      dnnl_sgemm(p.a.transposed ? 'T' : 'N', p.b.transposed ? 'T' : 'N', p.m, p.n, p.k, 1.0f, p.a.data,
                 p.a.ld, p.b.data, p.b.ld, p.accumulate ? 1.0f : 0.0f, p.c, p.ldc);
  if (status != dnnl_success) multiply_slowly(p);
}

}  // namespace

bool onednn_serves(Isa isa) {
  return isa >= Isa::avx512;
}

void onednn_multiply(const ExecContext& ctx, const Product& p) {
  if (p.may_split_k && splits_k(p.m, p.n, p.k)) {
    split_k(ctx, p, [](const Product& part, int) { multiply_tile(part); });
    return;
  }
  const Grid g = make_grid(p.m, p.n);
  ctx.pool.parallel_for(g.n_m * g.n_n, [&](int64_t task, int) {
    const int64_t i = task % g.n_m * g.tile_m;
    const int64_t j = task / g.n_m * g.tile_n;
    Product tile = p;
    tile.m = std::min(g.tile_m, p.m - i);
    tile.n = std::min(g.tile_n, p.n - j);
    tile.a = p.a.at(i, 0);
    tile.b = p.b.at(0, j);
    tile.c = p.c + i * p.ldc + j;
    multiply_tile(tile);
  });
}

#else

bool onednn_serves(Isa) {
  return false;
}
void onednn_multiply(const ExecContext&, const Product&) {}

#endif

}  // namespace gpt::gemm
