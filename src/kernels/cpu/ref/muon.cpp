#include <cmath>

#include "kernels/cpu/ref/ref.h"

// The Muon optimizer. The implementation calls the matrix product ops of the given kernel table, so all
// kernel tables share it.

namespace gpt {
namespace {

struct Quintic {
  double a, b, c;
};
constexpr int kIterations = 5;
// https://kellerjordan.github.io/posts/muon/
constexpr Quintic kJordan = {3.4445, -4.7750, 2.0315};
// Coefficients of Amsel et al. 2025 (arXiv 2505.16932), for five iterations, safety factor 2e-2, cushion 2.
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

// The layout of the scratch memory for one matrix. X is stored transposed if the matrix has more rows than
// columns, so X never has more rows than columns.
struct Plan {
  int64_t m, n;  // shape of X
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
  Muon(const ExecContext& ctx, const MuonArgs& a, const MuonMatrix& matrix)
      : ctx_(ctx),
        a_(a),
        matrix_(matrix),
        rows_(matrix.param.rows()),
        cols_(matrix.param.cols()),
        plan_(rows_, cols_, matrix.param.dtype) {
    std::byte* at = ctx.scratch.shared;
    const auto take = [&](int64_t bytes) {
      std::byte* const begin = at;
      at += bytes;
      return begin;
    };
    const DType type = matrix.param.dtype;
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
  static constexpr int64_t kTile = 16;     // rows or columns of a task; one cache line of fp32
  static constexpr int64_t kColumns = 64;  // columns of a tile

  bool is_torch() const { return a_.form == MuonForm::torch; }
  // True if X is the transposed matrix. Square matrices are transposed too, so that their rows are columns of
  // X and are scaled by the factors of X's columns.
  bool turned() const { return rows_ >= cols_; }

  // Calls fn(row, first column, number of columns, their elements of `x`) for the whole matrix, one tile at a
  // time. With tiles, a transposed X is read and written in whole cache lines. Each row belongs to one task,
  // which processes the pieces of the row in order.
  enum class Use : uint8_t { read, write, change };
  template <class F>
  void for_tiles(const TensorView& x, Use use, F&& fn) const {
    ctx_.pool.parallel_for((rows_ + kTile - 1) / kTile, [&](int64_t task, int) {
      const int64_t first = task * kTile, rows = std::min(kTile, rows_ - first);
      T tile[kTile * kColumns];
      for (int64_t from = 0; from < cols_; from += kColumns) {
        const int64_t cols = std::min(kColumns, cols_ - from);
        if (turned() && use != Use::write) turn(x, first, rows, from, cols, tile, /*store=*/false);
        for (int64_t r = 0; r < rows; ++r)
          fn(first + r, from, cols, turned() ? tile + r * kColumns : x.row<T>(first + r) + from);
        if (turned() && use != Use::read) turn(x, first, rows, from, cols, tile, /*store=*/true);
      }
    });
  }
  // Copies a tile [rows,cols] of the matrix from X to `tile`, or from `tile` to X if `store` is true. X
  // stores the tile transposed, as [cols,rows].
  static void turn(const TensorView& x, int64_t first, int64_t rows, int64_t from, int64_t cols, T* tile,
                   bool store) {
    for (int64_t c = 0; c < cols; ++c) {
      T* line = x.row<T>(from + c) + first;
      for (int64_t r = 0; r < rows; ++r)
        store ? void(line[r] = tile[r * kColumns + c]) : void(tile[r * kColumns + c] = line[r]);
    }
  }
  static double sum_of_squares(const T* x, int64_t n) {
    double sums[4] = {};
    for (int64_t i = 0; i < n; ++i)
      sums[i % 4] += double{x[i]} * x[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }

  // Computes the momentum buffer M, the update U, and the sums of squares of the rows of U.
  void momentum() const {
    const auto scale = static_cast<T>(unwrap(a_.step)->grad_scale);
    const auto mu = static_cast<T>(a_.momentum.at(unwrap(a_.step)->step));
    const auto rest = static_cast<T>(1 - a_.momentum.at(unwrap(a_.step)->step));
    std::fill_n(row_values_, rows_, 0.0);
    for_tiles(x_, Use::write, [&](int64_t r, int64_t from, int64_t n, T* u) {
      const T* grad = matrix_.grad.row<T>(r) + from;
      T* m = matrix_.m.row<T>(r) + from;
      for (int64_t c = 0; c < n; ++c) {
        const T g = scale * grad[c];
        m[c] += rest * (g - m[c]);
        u[c] = g + mu * (m[c] - g);
      }
      row_values_[r] += sum_of_squares(u, n);
    });
  }

  // Normalizes U: computes a factor for every row of U and multiplies the row by it.
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
    for_tiles(x_, Use::change, [&](int64_t r, int64_t, int64_t n, T* u) {
      const auto factor = static_cast<T>(row_values_[r]);
      for (int64_t c = 0; c < n; ++c)
        u[c] *= factor;
    });
  }

  // Computes y = a x + (b A + c A A) x, one iteration of the orthogonalization.
  void iterate(const Quintic& q, const TensorView& x, const TensorView& y) const {
    const ExecContext ctx{ctx_.device, ctx_.pool, ctx_.kernels, rest_};
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

  // Computes a factor for every column of X. The factor combines two steps: scaling X to the norm sqrt(m),
  // and division by the square root of the running mean of squares.
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
    T* const v = matrix_.v.template as<T>();
    double before = 0, after = 0;  // squared norms without and with the factors
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
    if (is_torch()) return unwrap(a_.step)->lr * matrix_.decay;
    constexpr double kPi = 3.14159265358979323846;
    const double way = static_cast<double>(unwrap(a_.step)->step) /
                       static_cast<double>(std::max<int64_t>(1, a_.momentum.steps));
    return unwrap(a_.step)->lr * matrix_.decay * 0.5 * (1 + std::cos(kPi * std::min(way, 1.0)));
  }

  void update() const {
    const auto rate = static_cast<T>(unwrap(a_.step)->lr * matrix_.rate),
               decay = static_cast<T>(this->decay());
    std::fill_n(row_values_, rows_, 0.0);
    for_tiles(y_, Use::read, [&](int64_t r, int64_t from, int64_t n, const T* y) {
      T* p = matrix_.param.row<T>(r) + from;
      T x[kColumns], change[kColumns];
      for (int64_t c = 0; c < n; ++c)
        x[c] =
            turned() ? static_cast<T>(col_values_[r]) * y[c] : static_cast<T>(col_values_[from + c]) * y[c];
      for (int64_t c = 0; c < n; ++c) {
        const auto decays = static_cast<T>(is_torch() || x[c] * p[c] >= 0);  // no branch, because the signs
                                                                             // are random
        change[c] = rate * x[c] + decays * decay * p[c];
        p[c] -= change[c];
      }
      row_values_[r] += sum_of_squares(change, n);
    });
    double squares = 0;
    for (int64_t r = 0; r < rows_; ++r)
      squares += row_values_[r];
    *matrix_.change.template as<T>() = static_cast<T>(squares);
  }

  const ExecContext& ctx_;
  const MuonArgs& a_;
  const MuonMatrix& matrix_;
  int64_t rows_, cols_;
  Plan plan_;
  TensorView x_, y_, gram_, polynomial_;
  double *row_values_, *col_values_;  // [rows] and [n]: sums of squares, later factors
  Scratch rest_;                      // scratch memory for the products
};

// Returns the scratch memory for one matrix. `per_thread` is the memory that the products need per thread.
ScratchNeed scratch_of(const KernelTable& table, int64_t rows, int64_t cols, DType dtype, DType compute) {
  const Plan plan(rows, cols, dtype);
  const DType product = dtype == DType::f64 ? DType::f64 : compute;
  ScratchNeed need = max_need(table.syrk_scratch(plan.m, plan.n, product),
                              table.linear_scratch(plan.m, plan.m, plan.n, product, /*backward=*/true));
  return {.shared = aligned(need.shared + plan.bytes()), .per_thread = aligned(need.per_thread)};
}

// Updates one matrix, with scratch memory that starts at `begin`.
void run(const ExecContext& ctx, ThreadPool& pool, std::byte* begin, const MuonArgs& a,
         const MuonMatrix& matrix) {
  const TensorView& p = matrix.param;
  if (p.size() == 0) return;
  const ScratchNeed need = scratch_of(ctx.kernels, p.rows(), p.cols(), p.dtype, a.compute);
  const ExecContext own{ctx.device,
                        pool,
                        ctx.kernels,
                        {.shared = begin,
                         .threads = begin + need.shared,
                         .shared_bytes = need.shared,
                         .per_thread_bytes = need.per_thread}};
  ref::dispatch(own, p.dtype, [&]<class T>(T) { Muon<T>(own, a, matrix).run(); });
}

}  // namespace

namespace ref {

// If there are many matrices, each thread updates one matrix at a time, so the products of a matrix stay in
// the caches of one core. If there are few matrices, all threads work on the same matrix, one matrix after
// another.
void muon(const ExecContext& ctx, const MuonArgs& a) noexcept {
  if (unwrap(a.step)->grad_scale == 0) return;
  for (const MuonMatrix& matrix : a.matrices) {
    const TensorView& p = matrix.param;
    GPT_OP_REQUIRE(ctx, ctx.scratch.fits(muon_scratch(ctx.kernels, p.rows(), p.cols(), p.dtype, a.compute)));
  }
  const auto n = static_cast<int64_t>(a.matrices.size());
  if (n < 2 * ctx.pool.size()) {
    for (const MuonMatrix& matrix : a.matrices)
      run(ctx, ctx.pool, ctx.scratch.threads, a, matrix);
    return;
  }
  ctx.pool.parallel_for(n, [&](int64_t i, int thread) {
    ThreadPool alone(ctx.pool, 1);
    run(ctx, alone, ctx.scratch.thread<std::byte>(thread), a, a.matrices[static_cast<size_t>(i)]);
  });
}

}  // namespace ref

ScratchNeed muon_scratch(const KernelTable& table, int64_t rows, int64_t cols, DType dtype, DType compute) {
  const ScratchNeed need = scratch_of(table, rows, cols, dtype, compute);
  return {.shared = 0, .per_thread = need.shared + need.per_thread};
}

}  // namespace gpt
