#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void linear_forward(const ExecContext& ctx, const LinearArgs& a) noexcept {
  dispatch(a.x.dtype, [&]<class T>(T) {
    for_rows(ctx, a.x.rows(), [&](int64_t n) {
      const T* x = a.x.row<T>(n);
      for (int64_t o = 0; o < a.w.rows(); ++o) {
        const T* w = a.w.row<T>(o);
        double sum = at_or<T>(a.bias, o, 0);
        for (int64_t i = 0; i < a.w.cols(); ++i)
          sum += double{x[i]} * w[i];
        a.y.row<T>(n)[o] = static_cast<T>(sum);
      }
    });
  });
}

void linear_backward_input(const ExecContext& ctx, const LinearBackwardInputArgs& a) noexcept {
  dispatch(a.dx.dtype, [&]<class T>(T) {
    for_rows(ctx, a.dx.rows(), [&](int64_t n) {
      const T* dy = a.dy.row<T>(n);
      T* dx = a.dx.row<T>(n);
      for (int64_t i = 0; i < a.w.cols(); ++i) {
        double sum = a.accumulate ? dx[i] : T{0};
        for (int64_t o = 0; o < a.w.rows(); ++o)
          sum += double{dy[o]} * a.w.row<T>(o)[i];
        dx[i] = static_cast<T>(sum);
      }
    });
  });
}

void linear_backward_weight(const ExecContext& ctx, const LinearBackwardWeightArgs& a) noexcept {
  dispatch(a.dw.dtype, [&]<class T>(T) {
    for_rows(ctx, a.dw.rows(), [&](int64_t o) {
      T* dw = a.dw.row<T>(o);
      for (int64_t i = 0; i < a.dw.cols(); ++i) {
        double sum = a.accumulate ? dw[i] : T{0};
        for (int64_t n = 0; n < a.dy.rows(); ++n)
          sum += double{a.dy.row<T>(n)[o]} * a.x.row<T>(n)[i];
        dw[i] = static_cast<T>(sum);
      }
      if (!a.dbias) return;
      double sum = a.accumulate ? a.dbias.as<T>()[o] : T{0};
      for (int64_t n = 0; n < a.dy.rows(); ++n)
        sum += a.dy.row<T>(n)[o];
      a.dbias.as<T>()[o] = static_cast<T>(sum);
    });
  });
}

}  // namespace gpt::ref
