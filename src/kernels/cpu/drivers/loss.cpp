#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

void softcap(const RowKernels& kernels, const ExecContext& ctx, const SoftcapArgs& a) noexcept {
  if (!all_f32(a.x)) return ref::softcap(ctx, a);
  for_rows(ctx, a.x.rows(), a.x.cols(),
           [&](int64_t n) { kernels.softcap(a.x.row<float>(n), a.x.cols(), a.cap); });
}

void cross_entropy(const RowKernels& kernels, const ExecContext& ctx, const CrossEntropyArgs& a) noexcept {
  if (!all_f32(a.logits, a.dlogits)) return ref::cross_entropy(ctx, a);
  const int64_t vocab = a.logits.cols();
  for_rows(ctx, a.logits.rows(), vocab, [&](int64_t n) {
    float* dlogits = row_or_null(a.dlogits, n);
    if (a.targets[n] < 0) {
      a.losses[n] = 0;
      if (dlogits != nullptr) std::fill_n(dlogits, vocab, 0.0f);
    } else {
      a.losses[n] = kernels.cross_entropy({.n = vocab,
                                           .logits = a.logits.row<float>(n),
                                           .target = a.targets[n],
                                           .dlogits = dlogits,
                                           .scale = a.scale,
                                           .softcap = a.softcap});
    }
  });
}

}  // namespace gpt::drivers
