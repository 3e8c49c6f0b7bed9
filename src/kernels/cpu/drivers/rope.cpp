#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

void rope(const RowKernels& kernels, const ExecContext& ctx, const RopeArgs& a) noexcept {
  const OneTypeKernels* typed = kernels_of(kernels, a.x.dtype);
  if (typed == nullptr) return fall_back(ctx, "rope", ref::rope, a);
  for_rows(ctx, a.x.rows(), a.n_head * a.head_dim, [&](int64_t n) {
    typed->rope(row_at(a.x, n), a.n_head, a.head_dim, a.cos.row<float>(unwrap(a.positions)[n]),
                a.sin.row<float>(unwrap(a.positions)[n]), static_cast<float>(a.sign), a.interleaved);
  });
}

}  // namespace gpt::drivers
