#include "kernels/cpu/gemm/onednn.h"

#ifdef GPT_HAVE_ONEDNN
#include <dnnl.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#endif

namespace gpt::gemm {

#ifdef GPT_HAVE_ONEDNN

namespace {

// A fresh thread starts with OpenMP's default team, whatever the main thread has set; oneDNN would then
// cut the product by the number of cores.
void stay_on_this_thread() {
#ifdef _OPENMP
  thread_local bool done = false;
  if (!done) omp_set_num_threads(1);
  done = true;
#endif
}

}  // namespace

bool onednn_serves(Isa isa) {
  return isa == Isa::avx512;
}

bool onednn_multiply(const Product& p) noexcept {
  stay_on_this_thread();
  return dnnl_sgemm(p.a.transposed ? 'T' : 'N', p.b.transposed ? 'T' : 'N', p.m, p.n, p.k, 1.0f, p.a.data,
                    p.a.ld, p.b.data, p.b.ld, p.accumulate ? 1.0f : 0.0f, p.c, p.ldc) == dnnl_success;
}

#else

bool onednn_serves(Isa) {
  return false;
}
bool onednn_multiply(const Product&) noexcept {
  return false;
}

#endif

}  // namespace gpt::gemm
