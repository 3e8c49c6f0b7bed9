#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

const ActKernels& act_kernels(const RowKernels& kernels, Act act) {
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
  GPT_ASSERT(false);
  return kernels.relu;
}

void act_forward(const RowKernels& kernels, const ExecContext& ctx, const ActArgs& a) noexcept {
  if (!all_f32(a.out, a.x, a.gate)) return ref::act_forward(ctx, a);
  const ActKernels& act = act_kernels(kernels, a.act);
  for_rows(ctx, a.x.rows(), a.x.cols(), [&](int64_t n) {
    act.forward(a.out.row<float>(n), a.x.row<float>(n), row_or_null(a.gate, n), a.x.cols());
  });
}

void act_backward(const RowKernels& kernels, const ExecContext& ctx, const ActBackwardArgs& a) noexcept {
  if (!all_f32(a.dx, a.dgate, a.dout, a.x, a.gate)) return ref::act_backward(ctx, a);
  const ActKernels& act = act_kernels(kernels, a.act);
  for_rows(ctx, a.x.rows(), a.x.cols(), [&](int64_t n) {
    act.backward(a.dx.row<float>(n), row_or_null(a.dgate, n), a.dout.row<float>(n), a.x.row<float>(n),
                 row_or_null(a.gate, n), a.x.cols());
  });
}

}  // namespace gpt::drivers
