#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

const ActKernels& act_kernels(const OneTypeKernels& kernels, Activation act) {
  switch (act) {
    case Activation::gelu_tanh:
      return kernels.gelu_tanh;
    case Activation::gelu:
      return kernels.gelu;
    case Activation::relu:
      return kernels.relu;
    case Activation::relu2:
      return kernels.relu2;
    case Activation::silu:
      return kernels.silu;
  }
  __builtin_unreachable();
}

void act_forward(const RowKernels& kernels, const ExecContext& ctx, const ActArgs& a) noexcept {
  const OneTypeKernels* typed = kernels_of(kernels, a.x.dtype);
  if (typed == nullptr || !all(a.x.dtype, a.out, a.gate))
    return fall_back(ctx, "act_forward", ref::act_forward, a);
  const ActKernels& act = act_kernels(*typed, a.act);
  const int64_t cols = a.x.cols();
  for_rows(ctx, a.x.rows(), cols, [&](int64_t n) {
    if (a.gate) {
      act.gated_forward(row_at(a.out, n), row_at(a.x, n), row_at(a.gate, n), cols);
    } else {
      act.forward(row_at(a.out, n), row_at(a.x, n), cols);
    }
  });
}

void act_backward(const RowKernels& kernels, const ExecContext& ctx, const ActBackwardArgs& a) noexcept {
  const OneTypeKernels* typed = kernels_of(kernels, a.x.dtype);
  if (typed == nullptr || !all(a.x.dtype, a.dx, a.dgate, a.dout, a.gate))
    return fall_back(ctx, "act_backward", ref::act_backward, a);
  const ActKernels& act = act_kernels(*typed, a.act);
  const int64_t cols = a.x.cols();
  for_rows(ctx, a.x.rows(), cols, [&](int64_t n) {
    if (a.gate) {
      act.gated_backward(row_at(a.dx, n), row_at(a.dgate, n), row_at(a.dout, n), row_at(a.x, n),
                         row_at(a.gate, n), cols);
    } else {
      act.backward(row_at(a.dx, n), row_at(a.dout, n), row_at(a.x, n), cols);
    }
  });
}

}  // namespace gpt::drivers
