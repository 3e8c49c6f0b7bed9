#include <cstring>

#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

void softcap(const RowKernels& kernels, const ExecContext& ctx, const SoftcapArgs& a) noexcept {
  if (!all_f32(a.x)) return fall_back(ctx, "softcap", ref::softcap, a);
  for_rows(ctx, a.x.rows(), a.x.cols(),
           [&](int64_t n) { kernels.softcap(a.x.row<float>(n), a.x.cols(), a.cap); });
}

void cross_entropy(const RowKernels& kernels, const ExecContext& ctx, const CrossEntropyArgs& a) noexcept {
  if (!all_f32(a.logits) || !is_activation(a.dlogits.dtype))
    return fall_back(ctx, "cross_entropy", ref::cross_entropy, a);
  const int64_t vocab = a.logits.cols();
  for_rows(ctx, a.logits.rows(), vocab, [&](int64_t n) {
    void* dlogits = row_at(a.dlogits, n);
    const double weight = row_weight(a, n);
    if (weight == 0) {
      unwrap(a.losses)[n] = 0;
      if (dlogits != nullptr)
        std::memset(dlogits, 0, static_cast<size_t>(vocab) * dtype_size(a.dlogits.dtype));
    } else {
      const double scale = loss_factor(a.step);
      const double loss = kernels.cross_entropy({.n = vocab,
                                                 .dlogits_type = stored_type(a.dlogits.dtype),
                                                 .logits = a.logits.row<float>(n),
                                                 .target = unwrap(a.targets)[n],
                                                 .dlogits = dlogits,
                                                 .scale = scale * weight,
                                                 .softcap = a.softcap,
                                                 .sharpness = 1 / a.temperature});
      unwrap(a.losses)[n] = weight * loss;
    }
  });
}

}  // namespace gpt::drivers
