#include <cmath>

#include "kernels/cpu/ref/ref.h"

// Muon for one matrix. Its products are ops of the table in use, so this is the op of every table.

namespace gpt {
namespace {

struct Quintic {
  double a, b, c;
};
constexpr int kIterations = 5;
// https://kellerjordan.github.io/posts/muon/
constexpr Quintic kJordan = {3.4445, -4.7750, 2.0315};
// Amsel et al. 2025 (arXiv 2505.16932), for five iterations, safety factor 2e-2, cushion 2.
constexpr Quintic kPolarExpress[kIterations] = {
    {8.156554524902461, -22.48329292557795, 15.878769915207462},
    {4.042929935166739, -2.808917465908714, 0.5000178451051316},
    {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
    {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
    {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}};

constexpr int64_t kAlign = 64;
int64_t aligned(int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

// Where the working memory of a matrix lies in scratch. X is turned so that it has no more rows than columns.
struct Plan {
  int64_t m, n;  // of X
  int64_t x_bytes, a_bytes, row_bytes, col_bytes;

  Plan(int64_t rows, int64_t cols, DType dtype) : m(std::min(rows, cols)), n(std::max(rows, cols)) {
    const auto size = static_cast<int64_t>(dtype_size(dtype));
    x_bytes = aligned(m * n * size);
    a_bytes = aligned(m * m * size);
    row_bytes = aligned(rows * static_cast<int64_t>(sizeof(double)));
    col_bytes = aligned(n * static_cast<int64_t>(sizeof(double)));
  }
  int64_t bytes() const { return 2 * (x_bytes + a_bytes) + row_bytes + col_bytes; }
};

template <class T>
class Muon {
 public:
  Muon(const ExecContext& ctx, const MuonArgs& a)
      : ctx_(ctx), a_(a), rows_(a.param.rows()), cols_(a.param.cols()), plan_(rows_, cols_, a.param.dtype) {
    std::byte* at = ctx.scratch.shared;
    const auto take = [&](int64_t bytes) {
      std::byte* const begin = at;
      at += bytes;
      return begin;
    };
    const DType type = a.param.dtype;
    x_ = make_view(take(plan_.x_bytes), type, {plan_.m, plan_.n});
    y_ = make_view(take(plan_.x_bytes), type, {plan_.m, plan_.n});
    gram_ = make_view(take(plan_.a_bytes), type, {plan_.m, plan_.m});
    polynomial_ = make_view(take(plan_.a_bytes), type, {plan_.m, plan_.m});
    row_values_ = reinterpret_cast<double*>(take(plan_.row_bytes));
    col_values_ = reinterpret_cast<double*>(take(plan_.col_bytes));
    rest_ = ctx.scratch;
    rest_.shared = at;
    rest_.shared_bytes -= plan_.bytes();
  }

  void run() const {
    momentum();
    normalise();
    for (int i = 0; i < kIterations; ++i)
      iterate(is_torch() ? kJordan : kPolarExpress[i], i % 2 == 0 ? x_ : y_, i % 2 == 0 ? y_ : x_);
    static_assert(kIterations % 2 == 1);  // the result is in y_
    if (is_torch()) {
      std::fill_n(col_values_, plan_.n, 1.0);
    } else {
      reduce_variance();
    }
    update();
  }

 private:
  static constexpr int64_t kTile = 16;  // rows or columns of a task; a cache line of fp32

  bool is_torch() const { return a_.form == MuonForm::torch; }
  // Square ones too, so that their rows are columns of X and get the factors of its columns.
  bool turned() const { return rows_ >= cols_; }
  T* element(const TensorView& x, int64_t r, int64_t c) const {
    return turned() ? x.row<T>(c) + r : x.row<T>(r) + c;
  }
  int64_t column(int64_t r, int64_t c) const { return turned() ? r : c; }  // of X

  // fn(row, first column, last): all of the matrix in tiles, so that X is also read and written by lines
  // where it is turned. A row belongs to one task, which sees its pieces in order.
  template <class F>
  void for_tiles(F&& fn) const {
    ctx_.pool.parallel_for((rows_ + kTile - 1) / kTile, [&](int64_t task, int) {
      const int64_t first = task * kTile, end = std::min(rows_, first + kTile);
      for (int64_t c = 0; c < cols_; c += kTile) {
        for (int64_t r = first; r < end; ++r)
          fn(r, c, std::min(cols_, c + kTile));
      }
    });
  }

  // M, U, and the sums of squares of U's rows.
  void momentum() const {
    const auto scale = static_cast<T>(a_.step->grad_scale);
    const auto mu = static_cast<T>(a_.momentum.at(a_.step->step));
    const auto rest = static_cast<T>(1 - a_.momentum.at(a_.step->step));
    std::fill_n(row_values_, rows_, 0.0);
    for_tiles([&](int64_t r, int64_t from, int64_t to) {
      const T* grad = a_.grad.row<T>(r);
      T* m = a_.m.row<T>(r);
      for (int64_t c = from; c < to; ++c) {
        const T g = scale * grad[c];
        m[c] += rest * (g - m[c]);
        const T u = g + mu * (m[c] - g);
        *element(x_, r, c) = u;
        row_values_[r] += double{u} * u;
      }
    });
  }

  // A factor for every row of U.
  void normalise() const {
    double squares = 0;
    for (int64_t r = 0; r < rows_; ++r)
      squares += row_values_[r];
    const double norm = std::sqrt(squares);
    if (is_torch()) {
      std::fill_n(row_values_, rows_, 1 / std::max(norm, 1e-7));
    } else {
      const double target = norm / std::sqrt(static_cast<double>(rows_));
      double equal = 0;
      for (int64_t r = 0; r < rows_; ++r) {
        const double factor = target / std::max(std::sqrt(row_values_[r]), 1e-6);
        equal += row_values_[r] * factor * factor;
        row_values_[r] = factor;
      }
      for (int64_t r = 0; r < rows_; ++r)
        row_values_[r] /= std::sqrt(equal) * 1.01 + 1e-6;
    }
    for_tiles([&](int64_t r, int64_t from, int64_t to) {
      const auto factor = static_cast<T>(row_values_[r]);
      for (int64_t c = from; c < to; ++c)
        *element(x_, r, c) *= factor;
    });
  }

  // y = a x + (b A + c A A) x
  void iterate(const Quintic& q, const TensorView& x, const TensorView& y) const {
    const ExecContext ctx{ctx_.pool, ctx_.kernels, rest_};
    const DType compute = x.dtype == DType::f64 ? DType::f64 : a_.compute;
    ctx.kernels.syrk(ctx, {.y = gram_, .x = x, .compute = compute});
    ctx.kernels.syrk(ctx, {.y = polynomial_, .x = gram_, .compute = compute});
    const auto a = static_cast<T>(q.a), b = static_cast<T>(q.b), c = static_cast<T>(q.c);
    ref::for_rows(ctx, plan_.m, [&](int64_t r) {
      const T *gram = gram_.row<T>(r), *from = x.row<T>(r);
      T *polynomial = polynomial_.row<T>(r), *to = y.row<T>(r);
      for (int64_t i = 0; i < plan_.m; ++i)
        polynomial[i] = b * gram[i] + c * polynomial[i];
      for (int64_t i = 0; i < plan_.n; ++i)
        to[i] = a * from[i];
    });
    ctx.kernels.linear_backward_weight(
        ctx, {.dw = y, .dy = polynomial_, .x = x, .accumulate = true, .compute = compute});
  }

  // A factor for every column of X: the norm sqrt(m), then that of the running mean of squares.
  void reduce_variance() const {
    constexpr double kBeta2 = 0.9, kLeast = 1e-10;
    ctx_.pool.parallel_for((plan_.n + kTile - 1) / kTile, [&](int64_t task, int) {
      const int64_t first = task * kTile, end = std::min(plan_.n, first + kTile);
      std::fill(col_values_ + first, col_values_ + end, 0.0);
      for (int64_t r = 0; r < plan_.m; ++r) {
        for (int64_t c = first; c < end; ++c)
          col_values_[c] += double{y_.row<T>(r)[c]} * y_.row<T>(r)[c];
      }
    });
    double squares = 0;
    for (int64_t c = 0; c < plan_.n; ++c)
      squares += col_values_[c];
    const auto m = static_cast<double>(plan_.m);
    const double scale = std::sqrt(m) / std::max(std::sqrt(squares), 1e-6);
    T* const v = a_.v.template as<T>();
    double before = 0, after = 0;  // squares of the norms without and with the factors
    for (int64_t c = 0; c < plan_.n; ++c) {
      const double square = scale * scale * col_values_[c];
      v[c] += static_cast<T>((1 - kBeta2) * (square / m - v[c]));
      col_values_[c] = 1 / std::sqrt(std::max(double{v[c]}, kLeast));
      before += square;
      after += square * col_values_[c] * col_values_[c];
    }
    const double same = scale * std::sqrt(before) / std::max(std::sqrt(after), kLeast);
    for (int64_t c = 0; c < plan_.n; ++c)
      col_values_[c] *= same;
  }

  double decay() const {
    if (is_torch()) return a_.step->lr * a_.decay;
    constexpr double kPi = 3.14159265358979323846;
    const double way =
        static_cast<double>(a_.step->step) / static_cast<double>(std::max<int64_t>(1, a_.momentum.steps));
    return a_.step->lr * a_.decay * 0.5 * (1 + std::cos(kPi * std::min(way, 1.0)));
  }

  void update() const {
    const auto rate = static_cast<T>(a_.step->lr * a_.rate), decay = static_cast<T>(this->decay());
    std::fill_n(row_values_, rows_, 0.0);
    for_tiles([&](int64_t r, int64_t from, int64_t to) {
      T* p = a_.param.row<T>(r);
      for (int64_t c = from; c < to; ++c) {
        const T x = static_cast<T>(col_values_[column(r, c)]) * *element(y_, r, c);
        const bool decays = is_torch() || x * p[c] >= 0;
        const T change = rate * x + (decays ? decay * p[c] : T{0});
        p[c] -= change;
        row_values_[r] += double{change} * change;
      }
    });
    double squares = 0;
    for (int64_t r = 0; r < rows_; ++r)
      squares += row_values_[r];
    *a_.change.template as<T>() = static_cast<T>(squares);
  }

  const ExecContext& ctx_;
  const MuonArgs& a_;
  int64_t rows_, cols_;
  Plan plan_;
  TensorView x_, y_, gram_, polynomial_;
  double *row_values_, *col_values_;  // [rows], [n]: sums, then factors
  Scratch rest_;                      // for the products
};

}  // namespace

namespace ref {

void muon(const ExecContext& ctx, const MuonArgs& a) noexcept {
  ctx.scratch.require(muon_scratch(ctx.kernels, a.param.rows(), a.param.cols(), a.param.dtype, a.compute));
  if (a.step->grad_scale == 0 || a.param.size() == 0) return;
  dispatch(a.param.dtype, [&]<class T>(T) { Muon<T>(ctx, a).run(); });
}

}  // namespace ref

ScratchNeed muon_scratch(const KernelTable& table, int64_t rows, int64_t cols, DType dtype, DType compute) {
  const Plan plan(rows, cols, dtype);
  const DType product = dtype == DType::f64 ? DType::f64 : compute;
  ScratchNeed need = max_need(table.syrk_scratch(plan.m, plan.n, product),
                              table.linear_scratch(plan.m, plan.m, plan.n, product, /*backward=*/true));
  need.shared += plan.bytes();
  return need;
}

}  // namespace gpt
