
#include "kernels/cpu/ref/activation.h"
#include "kernels/cpu/ref/quant.h"
#include "kernels/quant.h"

namespace gpt::ref {
namespace {

// The weights of a product, either plain or packed. In the reference, packed matrices consist of plain rows
// too.
struct Weights {
  TensorView w;
  DType compute;  // dtype to which the operands are rounded
};

Weights weights_of(const TensorView& w, const PackedMatrix& packed, std::optional<DType> compute = {}) {
  if (!packed) return {w, compute.value_or(w.dtype)};
  return {make_view(packed.data, packed.dtype, {packed.out, packed.in}), packed.dtype};
}

// A row or a column of a matrix, whose elements are rounded to `compute`.
template <class T>
struct Line {
  const TensorView& m;
  int64_t at;
  bool is_row;
  DType compute;

  // Reads n elements, starting at element `from`. Checks the dtype once for all elements.
  void read(int64_t from, int64_t n, T* to) const {
    if (is_quantized(m.dtype)) return read_blocks(from, n, to);
    if (m.dtype == DType::f64) copy<double>(from, n, to);
    if (m.dtype == DType::f32) copy<float>(from, n, to);
    if (m.dtype == DType::bf16) copy<bf16>(from, n, to);
    if (m.dtype == DType::f16) copy<f16>(from, n, to);
    if (compute != DType::bf16 && compute != DType::f16) return;
    for (int64_t i = 0; i < n; ++i)
      to[i] = rounded(to[i], compute);
  }

 private:
  // Reads elements of a column of a quantized matrix.
  void read_blocks(int64_t from, int64_t n, T* to) const {
    for (int64_t i = 0; i < n; ++i) {
      float block[kQuantBlock];
      dequantize_block(m.dtype, m.slice_rows(from + i, 1).data, at / kQuantBlock, block);
      to[i] = block[at % kQuantBlock];
    }
  }

  template <class Stored>
  void copy(int64_t from, int64_t n, T* to) const {
    const Stored* p = m.as<const Stored>() + (is_row ? m.offset(at, from) : m.offset(from, at));
    const int64_t step = is_row != m.transposed ? 1 : m.ld;
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<Stored, double>) {
        to[i] = static_cast<T>(p[i * step]);
      } else {
        to[i] = to_float(p[i * step]);
      }
    }
  }
};

// Returns `sum` plus the dot product of a and b. The products are added in order.
template <class T>
double add_dot(double sum, const Line<T>& a, const Line<T>& b, int64_t n) {
  constexpr int64_t kPiece = 256;
  T x[kPiece], y[kPiece];
  for (int64_t from = 0; from < n; from += kPiece) {
    const int64_t count = std::min(kPiece, n - from);
    a.read(from, count, x);
    b.read(from, count, y);
    for (int64_t i = 0; i < count; ++i)
      sum += double{x[i]} * y[i];  // NOLINT(clang-analyzer-core.*): read() fills both
  }
  return sum;
}

}  // namespace

void linear_forward(const ExecContext& ctx, const LinearArgs& a) noexcept {
  if (a.packed && is_quantized(a.packed.dtype)) return quantized_linear_forward(ctx, a);
  if (is_quantized(a.w.dtype)) return quantized_rows_forward(ctx, a);
  const Weights m = weights_of(a.w, a.packed, a.compute);
  dispatch(ctx, a.x.dtype, [&]<class T>(T) {
    for_rows(ctx, a.x.rows(), [&](int64_t n) {
      for (int64_t o = 0; o < m.w.rows(); ++o) {
        double sum = add_dot<T>(at_or<T>(a.bias, o, 0), {a.x, n, true, m.compute}, {m.w, o, true, m.compute},
                                m.w.cols());
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
  dispatch(ctx, a.dx.dtype, [&]<class T>(T) {
    for_rows(ctx, a.dx.rows(), [&](int64_t n) {
      for (int64_t i = 0; i < m.w.cols(); ++i) {
        double sum = add_dot<T>(a.accumulate ? get<T>(a.dx, n, i) : T{0}, {a.dy, n, true, m.compute},
                                {m.w, i, false, m.compute}, m.w.rows());
        if (a.act) sum *= act_slope(*a.act, get<T>(a.pre, n, i));
        set(a.dx, n, i, sum);
      }
    });
  });
}

void linear_backward_weight(const ExecContext& ctx, const LinearBackwardWeightArgs& a) noexcept {
  dispatch(ctx, a.dw.dtype, [&]<class T>(T) {
    for_rows(ctx, a.dw.rows(), [&](int64_t o) {
      T* dw = a.dw.row<T>(o);
      for (int64_t i = 0; i < a.dw.cols(); ++i) {
        dw[i] = static_cast<T>(add_dot<T>(a.accumulate ? dw[i] : T{0}, {a.dy, o, false, a.compute},
                                          {a.x, i, false, a.compute}, a.dy.rows()));
      }
      if (!a.dbias) return;
      double sum = a.accumulate ? a.dbias.as<T>()[o] : T{0};
      for (int64_t n = 0; n < a.dy.rows(); ++n)
        sum += get<T>(a.dy, n, o);
      a.dbias.as<T>()[o] = static_cast<T>(sum);
    });
  });
}

namespace {

// Dequantizes row r of `part` and stores the values in row `row` of dst.
void unpack_row(const TensorView& part, int64_t r, const TensorView& dst, int64_t row) {
  for (int64_t b = 0; b < part.cols() / kQuantBlock; ++b) {
    float values[kQuantBlock];
    dequantize_block(part.dtype, part.slice_rows(r, 1).data, b, values);
    for (int64_t j = 0; j < kQuantBlock; ++j)
      set(dst, row, b * kQuantBlock + j, values[j]);
  }
}

}  // namespace

void pack_matrix(const ExecContext& ctx, const PackMatrixArgs& a) noexcept {
  if (is_quantized(a.dst.dtype)) return quantized_pack_matrix(ctx, a);
  const TensorView dst = make_view(a.dst.data, a.dst.dtype, {a.dst.out, a.dst.in});
  int64_t first = 0;
  for (const TensorView& part : a.parts) {
    for_rows(ctx, part.rows(), [&](int64_t r) {
      if (is_quantized(part.dtype)) return unpack_row(part, r, dst, first + r);
      for (int64_t c = 0; c < part.cols(); ++c)
        set(dst, first + r, c, part.transposed ? get<float>(part, c, r) : get<float>(part, r, c));
    });
    first += part.rows();
  }
}

ScratchNeed linear_scratch(int64_t rows, int64_t, int64_t in, DType dtype, bool backward) {
  return is_quantized(dtype) && !backward ? quantized_scratch(rows, in) : ScratchNeed{};
}

int64_t packed_bytes(DType dtype, int64_t out, int64_t in, bool transposed) {
  const bool is_packed = is_quantized(dtype) ? in % kQuantBlock == 0 && !transposed
                                             : dtype == DType::bf16 || dtype == DType::f16;
  return is_packed ? out * row_bytes(dtype, in) : 0;
}

}  // namespace gpt::ref
