#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

const ActKernels& act_kernels(const OneTypeKernels& kernels, Act act) {
  switch (act) {
    case Act::gelu_tanh:
      return kernels.gelu_tanh;
    case Act::gelu:
      return kernels.gelu;
    case Act::relu:
      return kernels.relu;
    case Act::relu2:
      return kernels.relu2;
    case Act::swiglu:
      return kernels.swiglu;
  }
  __builtin_unreachable();
}

void act_forward(const RowKernels& kernels, const ExecContext& ctx, const ActArgs& a) noexcept {
  const OneTypeKernels* typed = kernels_of(kernels, a.x.dtype);
  if (typed == nullptr || !all(a.x.dtype, a.out, a.gate)) return ref::act_forward(ctx, a);
  const ActKernels& act = act_kernels(*typed, a.act);
  for_rows(ctx, a.x.rows(), a.x.cols(),
           [&](int64_t n) { act.forward(row_at(a.out, n), row_at(a.x, n), row_at(a.gate, n), a.x.cols()); });
}

void act_backward(const RowKernels& kernels, const ExecContext& ctx, const ActBackwardArgs& a) noexcept {
  const OneTypeKernels* typed = kernels_of(kernels, a.x.dtype);
  if (typed == nullptr || !all(a.x.dtype, a.dx, a.dgate, a.dout, a.gate)) return ref::act_backward(ctx, a);
  const ActKernels& act = act_kernels(*typed, a.act);
  for_rows(ctx, a.x.rows(), a.x.cols(), [&](int64_t n) {
    act.backward(row_at(a.dx, n), row_at(a.dgate, n), row_at(a.dout, n), row_at(a.x, n), row_at(a.gate, n),
                 a.x.cols());
  });
}

}  // namespace gpt::drivers
