#include <cmath>

#include "kernels/cpu/ref/activation.h"
#include "kernels/cpu/ref/quant.h"

namespace gpt::ref {
namespace {

// The weights of a product, plain or packed: the reference packs into plain rows of the same meaning.
struct Weights {
  TensorView w;
  DType compute;  // what operands are rounded to
};

Weights weights_of(const TensorView& w, const PackedMatrix* packed) {
  if (packed == nullptr) return {w, w.dtype};
  return {make_view(packed->data, packed->dtype, {packed->out, packed->in}), packed->dtype};
}

}  // namespace

void linear_forward(const ExecContext& ctx, const LinearArgs& a) noexcept {
  if (a.packed && is_quantized(a.packed->dtype)) return quantized_linear_forward(ctx, a);
  const Weights m = weights_of(a.w, a.packed);
  dispatch(a.x.dtype, [&]<class T>(T) {
    for_rows(ctx, a.x.rows(), [&](int64_t n) {
      for (int64_t o = 0; o < m.w.rows(); ++o) {
        double sum = at_or<T>(a.bias, o, 0);
        for (int64_t i = 0; i < m.w.cols(); ++i)
          sum += double{rounded(get<T>(a.x, n, i), m.compute)} * get<T>(m.w, o, i);
        if (a.act) {
          if (a.pre) set(a.pre, n, o, sum);
          sum = act_value(*a.act, sum);
        }
        set(a.y, n, o, sum);
      }
    });
  });
}

void linear_backward_input(const ExecContext& ctx, const LinearBackwardInputArgs& a) noexcept {
  const Weights m = weights_of(a.w, a.packed);
  dispatch(a.dx.dtype, [&]<class T>(T) {
    for_rows(ctx, a.dx.rows(), [&](int64_t n) {
      for (int64_t i = 0; i < m.w.cols(); ++i) {
        double sum = a.accumulate ? get<T>(a.dx, n, i) : T{0};
        for (int64_t o = 0; o < m.w.rows(); ++o)
          sum += double{rounded(get<T>(a.dy, n, o), m.compute)} * get<T>(m.w, o, i);
        if (a.act) sum *= act_slope(*a.act, get<T>(a.pre, n, i));
        set(a.dx, n, i, sum);
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
          sum += double{rounded(get<T>(a.dy, n, o), a.compute)} * rounded(get<T>(a.x, n, i), a.compute);
        dw[i] = static_cast<T>(sum);
      }
      if (!a.dbias) return;
      double sum = a.accumulate ? a.dbias.as<T>()[o] : T{0};
      for (int64_t n = 0; n < a.dy.rows(); ++n)
        sum += get<T>(a.dy, n, o);
      a.dbias.as<T>()[o] = static_cast<T>(sum);
    });
  });
}

void pack_matrix(const ExecContext& ctx, const PackMatrixArgs& a) noexcept {
  if (is_quantized(a.dst->dtype)) return quantized_pack_matrix(ctx, a);
  const TensorView dst = make_view(a.dst->data, a.dst->dtype, {a.dst->out, a.dst->in});
  int64_t first = 0;
  for (const TensorView& part : a.parts) {
    for_rows(ctx, part.rows(), [&](int64_t r) {
      for (int64_t c = 0; c < part.cols(); ++c)
        set(dst, first + r, c, get<float>(part, r, c));
    });
    first += part.rows();
  }
}

int64_t packed_bytes(const PackedMatrix& m) {
  if (m.dtype != DType::bf16 && m.dtype != DType::f16) return 0;
  return m.out * m.in * static_cast<int64_t>(dtype_size(m.dtype));
}

}  // namespace gpt::ref
