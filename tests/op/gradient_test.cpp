// Checks the gradients of ops against finite differences, with the op cases of this folder. For each case of
// a backward op, a kernel table runs the case in double and checks the result for the arguments of that case.
// Ops that are their own backward op are checked in the same way.

#include <gtest/gtest.h>

#include <set>

#include "grad/finite_difference.h"
#include "grad/op_bench.h"
#include "kernels/unwrap.h"
#include "op/op_case.h"

namespace gpt::testing {
namespace {

using test::copy_values;
using test::dot;
using test::minus;
using test::OpBench;

// The largest case that is checked. Larger cases would take minutes.
constexpr int64_t kMostElements = 4096;

// Returns true if a case with these views is small enough to check. The first view must not be empty; all
// other views are optional.
template <class... View>
bool checkable(const TensorView& first, const View&... views) {
  return first.size() > 0 && ((views ? views.size() : 0) + ... + first.size()) <= kMostElements;
}

// Records the gradient that a backward op writes to a view or adds to it.
class Gradient {
 public:
  Gradient(const TensorView& view, bool accumulate) : view_(view) {
    if (!view) return;
    before_ = copy_values(view);
    if (!accumulate) std::fill(before_.begin(), before_.end(), 0.0);
  }
  explicit operator bool() const { return bool(view_); }
  std::vector<double> values() const { return minus(copy_values(view_), before_); }

 private:
  TensorView view_;
  std::vector<double> before_;
};

// A single call of an op, with its memory, its loss, and its variables and their gradients.
class Check : public OpBench {
 public:
  Check() = default;
  Check(const Check&) = delete;
  ~Check() {
    ++count();
    test::GradientCheck(loss, 1).run(variables_);
  }

  std::function<double()> loss;

  void variable(const char* name, const TensorView& value, const Gradient& gradient) {
    if (gradient) variables_.push_back({name, value, gradient.values()});
  }
  TensorView normal_like(const TensorView& v) {
    return v ? make_view(normal({v.size()}).data, v.dtype, v.dims()) : TensorView{};
  }
  // Returns a dense copy of an input and replaces values at which there is no derivative: NaN, infinities and
  // the kink of relu.
  TensorView smooth_copy(const TensorView& v) {
    const TensorView to = copy(v);
    for (int64_t i = 0; i < to.size(); ++i) {
      double& x = to.as<double>()[i];
      if (!std::isfinite(x) || std::abs(x) < 1e-3) x = 0.5;
    }
    return to;
  }
  // Counts the checks.
  static int& count() {
    static int n = 0;
    return n;
  }

 private:
  std::vector<test::Variable> variables_;
};

void embedding_backward(const ExecContext&, const EmbeddingBackwardArgs& a) noexcept {
  if (!checkable(a.dout, a.dwte, a.dwpe)) return;
  Check c;
  const int64_t n = a.dout.rows(), entries = n > 0 ? std::ranges::max(unwrap_span(a.ids)) + 1 : 1;
  const TensorView wte = a.dwte ? c.normal_like(a.dwte) : c.normal({entries, a.dout.cols()});
  const TensorView wpe = c.normal_like(a.dwpe), out = c.copy(a.dout);
  c.loss = [=, &c] {
    c.ops().embedding_forward(c.ctx(),
                              {.out = out, .ids = a.ids, .positions = a.positions, .wte = wte, .wpe = wpe});
    return dot(out, a.dout);
  };
  const Gradient dwte(a.dwte, a.accumulate_wte), dwpe(a.dwpe, a.accumulate_wpe);
  c.ops().embedding_backward(c.ctx(), a);
  c.variable("wte", wte, dwte);
  c.variable("wpe", wpe, dwpe);
}

// In cases with a residual, the x of the case is the sum of x and add.
void norm_backward(const ExecContext&, const NormBackwardArgs& a) noexcept {
  if (!checkable(a.dx)) return;
  Check c;
  const TensorView add = c.normal_like(a.dresidual), x = c.copy(a.x);
  for (int64_t i = 0; add && i < x.size(); ++i)
    x.as<double>()[i] -= add.as<double>()[i];
  const TensorView dout = c.copy(a.dout), dresidual = a.dresidual ? c.copy(a.dresidual) : TensorView{};
  const NormArgs forward{.kind = a.kind,
                         .eps = 1e-2,
                         .out = c.copy(a.x),
                         .x = x,
                         .gain = a.gain,
                         .bias = c.normal_like(a.dbias),
                         .add = add,
                         .sum = add ? c.copy(x) : TensorView{},
                         .mean = a.kind == NormKind::layer ? a.mean : TensorView{},
                         .rstd = a.rstd};
  c.loss = [=, &c] {
    c.ops().norm_forward(c.ctx(), forward);
    return dot(forward.out, dout) + (add ? dot(forward.sum, dresidual) : 0);
  };
  c.loss();  // computes mean and rstd
  NormBackwardArgs args = a;
  if (add) args.x = forward.sum;
  const Gradient dx(a.dx, false), dgain(a.dgain, a.accumulate), dbias(a.dbias, a.accumulate);
  c.ops().norm_backward(c.ctx(), args);
  c.variable("x", x, dx);
  if (add) c.variable("add", add, dx);
  c.variable("gain", a.gain, dgain);
  c.variable("bias", forward.bias, dbias);
}

// With an activation, the input of the matmul is act(pre), and dx is the gradient of pre.
void linear_backward_input(const ExecContext&, const LinearBackwardInputArgs& a) noexcept {
  if (a.packed || !checkable(a.dx, a.dy, a.w)) return;
  Check c;
  const TensorView x = a.act ? c.smooth_copy(a.pre) : c.normal({a.dx.rows(), a.dx.cols()});
  const TensorView h = a.act ? c.copy(x) : x, y = c.copy(a.dy);
  c.loss = [=, &c] {
    if (a.act) c.ops().act_forward(c.ctx(), {.act = *a.act, .out = h, .x = x});
    c.ops().linear_forward(c.ctx(), {.y = y, .x = h, .w = a.w});
    return dot(y, a.dy);
  };
  LinearBackwardInputArgs args = a;
  if (a.act) args.pre = x;
  const Gradient dx(a.dx, a.accumulate);
  c.ops().linear_backward_input(c.ctx(), args);
  c.variable("x", x, dx);
}

void linear_backward_weight(const ExecContext&, const LinearBackwardWeightArgs& a) noexcept {
  if (a.compute != DType::f32 || !checkable(a.dw, a.dy, a.x)) return;  // narrow types round the operands
  Check c;
  const TensorView w = c.normal_like(a.dw), bias = c.normal_like(a.dbias), y = c.copy(a.dy);
  c.loss = [=, &c] {
    c.ops().linear_forward(c.ctx(), {.y = y, .x = a.x, .w = w, .bias = bias});
    return dot(y, a.dy);
  };
  const Gradient dw(a.dw, a.accumulate), dbias(a.dbias, a.accumulate);
  c.ops().linear_backward_weight(c.ctx(), a);
  c.variable("w", w, dw);
  c.variable("bias", bias, dbias);
}

void act_backward(const ExecContext&, const ActBackwardArgs& a) noexcept {
  if (!checkable(a.x)) return;
  Check c;
  const TensorView x = c.smooth_copy(a.x), gate = a.gate ? c.smooth_copy(a.gate) : TensorView{};
  OpBench::assign(a.dout, c.smooth_copy(a.dout));
  const TensorView out = c.copy(x), dout = c.copy(a.dout);
  c.loss = [=, &c] {
    c.ops().act_forward(c.ctx(), {.act = a.act, .out = out, .x = x, .gate = gate});
    return dot(out, dout);
  };
  ActBackwardArgs args = a;
  args.x = x;
  args.gate = gate;
  const Gradient dx(a.dx, false), dgate(a.dgate, false);
  c.ops().act_backward(c.ctx(), args);
  c.variable("x", x, dx);
  c.variable("gate", gate, dgate);
}

// Checks an in-place op that is its own backward op. `forward` runs the op on a view, `backward` on a
// gradient.
template <class F, class B>
void check_in_place(const TensorView& values, F forward, B backward) {
  Check c;
  const TensorView x = c.smooth_copy(values), y = c.copy(x), dy = c.normal_like(x), dx = c.copy(dy);
  c.loss = [=, &c] {
    OpBench::assign(y, x);
    forward(c, y);
    return dot(y, dy);
  };
  c.loss();
  const Gradient gradient(dx, false);
  backward(c, dx, y);
  c.variable("x", x, gradient);
}

void rope(const ExecContext&, const RopeArgs& a) noexcept {
  if (!checkable(a.x)) return;
  const auto run = [&](Check& c, const TensorView& x, int sign) {
    RopeArgs args = a;
    args.x = x;
    args.sign = sign;
    c.ops().rope(c.ctx(), args);
  };
  check_in_place(
      a.x, [&](Check& c, const TensorView& y) { run(c, y, a.sign); },
      [&](Check& c, const TensorView& dx, const TensorView&) { run(c, dx, -a.sign); });
}

void qk_norm_backward(const ExecContext&, const QkNormBackwardArgs& a) noexcept {
  if (!checkable(a.dx)) return;
  Check c;
  const TensorView x = c.smooth_copy(a.y), y = c.copy(x), dy = c.normal_like(x), dx = c.copy(dy);
  const TensorView normed = a.gain ? c.copy(x) : TensorView{};
  c.loss = [=, &c] {
    OpBench::assign(y, x);
    c.ops().qk_norm_forward(c.ctx(), {.eps = 1e-2,
                                      .x = y,
                                      .n_head = a.n_head,
                                      .head_dim = a.head_dim,
                                      .rstd = a.rstd,
                                      .gain = a.gain,
                                      .normed = normed});
    return dot(y, dy);
  };
  c.loss();
  QkNormBackwardArgs args = a;
  args.dx = dx;
  args.y = a.gain ? normed : y;
  const Gradient gradient(dx, false), dgain(a.dgain, a.accumulate);
  c.ops().qk_norm_backward(c.ctx(), args);
  c.variable("x", x, gradient);
  c.variable("gain", a.gain, dgain);
}

void dropout(const ExecContext&, const DropoutArgs& a) noexcept {
  if (!checkable(a.x)) return;
  const auto run = [&](Check& c, const TensorView& x) {
    c.ops().dropout(c.ctx(), {.out = x, .x = x, .dropout = a.dropout});
  };
  check_in_place(a.x, run, [&](Check& c, const TensorView& dx, const TensorView&) { run(c, dx); });
}

void scale(const ExecContext&, const ScaleArgs& a) noexcept {
  if (!checkable(a.x)) return;
  const auto run = [&](Check& c, const TensorView& x) {
    c.ops().scale(c.ctx(), {.x = x, .factor = a.factor});
  };
  check_in_place(a.x, run, [&](Check& c, const TensorView& dx, const TensorView&) { run(c, dx); });
}

void attention_backward(const ExecContext&, const AttentionBackwardArgs& a) noexcept {
  if (!checkable(a.q, a.k, a.v)) return;
  Check c;
  const TensorView out = c.copy(a.out), lse = c.copy(a.lse);
  c.loss = [=, &c] {
    c.ops().attention_forward(
        c.ctx(), {.shape = a.shape, .seqs = a.seqs, .out = out, .q = a.q, .k = a.k, .v = a.v, .lse = lse});
    return dot(out, a.dout);
  };
  const Gradient dq(a.dq, false), dk(a.dk, false), dv(a.dv, false);
  c.ops().attention_backward(c.ctx(), a);
  c.variable("q", a.q, dq);
  c.variable("k", a.k, dk);
  c.variable("v", a.v, dv);
}

void cross_entropy(const ExecContext&, const CrossEntropyArgs& a) noexcept {
  if (!a.dlogits || !checkable(a.logits)) return;
  Check c;
  const int64_t n = a.logits.rows();
  const TensorView logits = c.copy(a.logits), losses = c.zeros({n});
  const double scale = a.step ? unwrap(a.step)->loss_scale * unwrap(a.step)->loss_weight : 1;
  c.loss = [=, &c] {
    c.ops().cross_entropy(c.ctx(), {.logits = logits,
                                    .targets = a.targets,
                                    .weights = a.weights,
                                    .losses = device_span<double>(losses),
                                    .softcap = a.softcap,
                                    .temperature = a.temperature});
    double sum = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += losses.as<double>()[i];
    return scale * sum;
  };
  const Gradient dlogits(a.dlogits, false);
  c.ops().cross_entropy(c.ctx(), a);
  for (int64_t i = 0; i < n; ++i) {
    if (unwrap(a.targets)[i] >= 0) continue;
    EXPECT_EQ(unwrap(a.losses)[i], 0) << "a target that does not count";
    for (int64_t v = 0; v < logits.cols(); ++v)
      EXPECT_EQ(a.dlogits.row<double>(i)[v], 0) << "a target that does not count";
  }
  c.variable("logits", logits, dlogits);
}

void pick_rows_backward(const ExecContext&, const PickRowsBackwardArgs& a) noexcept {
  if (!checkable(a.dx)) return;
  Check c;
  const TensorView x = c.normal_like(a.dx), out = c.copy(a.dout);
  c.loss = [=, &c] {
    c.ops().pick_rows(c.ctx(), {.out = out, .x = x, .picked = a.picked});
    return dot(out, a.dout);
  };
  const Gradient dx(a.dx, a.accumulate);
  c.ops().pick_rows_backward(c.ctx(), a);
  c.variable("x", x, dx);
}

void label_loss(const ExecContext&, const LabelLossArgs& a) noexcept {
  if (!a.dlogits || !checkable(a.logits)) return;
  Check c;
  const TensorView logits = c.copy(a.logits), losses = c.zeros({static_cast<int64_t>(a.picked.ids.size())});
  const double scale = a.step ? unwrap(a.step)->loss_scale * unwrap(a.step)->loss_weight : 1;
  c.loss = [=, &c] {
    LabelLossArgs forward = a;
    forward.logits = logits;
    forward.losses = device_span<double>(losses);
    forward.accumulate = false;
    forward.dlogits = {};
    c.ops().label_loss(c.ctx(), forward);
    double sum = 0;
    for (int64_t i = 0; i < losses.size(); ++i)
      sum += losses.as<double>()[i];
    return scale * sum;
  };
  const Gradient dlogits(a.dlogits, false);
  c.ops().label_loss(c.ctx(), a);
  c.variable("logits", logits, dlogits);
}

void add(const ExecContext&, const AddArgs& a) noexcept {
  if (!checkable(a.a)) return;
  Check c;
  const TensorView x = c.smooth_copy(a.a), y = c.smooth_copy(a.b), out = c.copy(x), dout = c.normal_like(x);
  c.loss = [=, &c] {
    c.ops().add(c.ctx(), {.out = out, .a = x, .b = y});
    return dot(out, dout);
  };
  const TensorView gradient = c.copy(dout);
  const Gradient both(gradient, false);
  c.variable("a", x, both);
  c.variable("b", y, both);
}

void scaled_sum_backward(const ExecContext&, const ScaledSumBackwardArgs& a) noexcept {
  if (!checkable(a.x, a.dx)) return;
  Check c;
  const TensorView out = c.copy(a.x), dout = c.copy(a.dout);
  c.loss = [=, &c] {
    c.ops().scaled_sum(c.ctx(), {.out = out, .a = a.x, .a_scale = a.scale});
    return a.factor * dot(out, dout);
  };
  const Gradient dx(a.dx, a.accumulate), dscale(a.dscale, a.accumulate_scale);
  c.ops().scaled_sum_backward(c.ctx(), a);
  c.variable("x", a.x, dx);
  c.variable("scale", a.scale, dscale);
}

// Each line is X(op with a check, the forward op whose gradient it computes).
#define GPT_FOR_EACH_CHECK(X)               \
  X(embedding_backward, embedding_forward)  \
  X(norm_backward, norm_forward)            \
  X(linear_backward_input, linear_forward)  \
  X(linear_backward_weight, linear_forward) \
  X(act_backward, act_forward)              \
  X(rope, rope)                             \
  X(qk_norm_backward, qk_norm_forward)      \
  X(dropout, dropout)                       \
  X(scale, scale)                           \
  X(attention_backward, attention_forward)  \
  X(cross_entropy, cross_entropy)           \
  X(pick_rows_backward, pick_rows)          \
  X(label_loss, label_loss)                 \
  X(add, add)                               \
  X(scaled_sum_backward, scaled_sum)

struct CheckedOp {
  std::string op, forward;
};
void PrintTo(const CheckedOp& c, std::ostream* out) {
  *out << c.op;
}
const std::vector<CheckedOp>& checked_ops() {
#define GPT_CHECKED_OP(op, forward) {#op, #forward},
  static const std::vector<CheckedOp> ops = {GPT_FOR_EACH_CHECK(GPT_CHECKED_OP)};
#undef GPT_CHECKED_OP
  return ops;
}

// Returns the reference table, in which each op that has a check is replaced by that check.
KernelTable checking_table() {
  KernelTable table = test::plain_table();
#define GPT_ENTER_CHECK(op, forward) table.op = op;
  GPT_FOR_EACH_CHECK(GPT_ENTER_CHECK)
#undef GPT_ENTER_CHECK
  return table;
}

// Returns the ops that have no gradient, with the reason for each.
const std::map<std::string, std::string>& ops_without_gradient() {
  static const std::map<std::string, std::string> list = {
      {"pack_matrix", "rearranges weights; products with packed ones have their own op tests"},
      {"scatter_rows", "copies into the key/value cache, which training does not have"},
      {"compact_rows", "moves the rows whose logits are wanted, in inference"},
      {"select_candidates", "chooses tokens, in inference"},
      {"softcap", "for logits that are shown or sampled; in the loss it is part of cross_entropy"},
      {"preference", "gives the weights of a cross-entropy; the whole objective has a test of its own"},
      {"sum_losses", "for what is shown; gradients begin with cross_entropy"},
      {"sum_squares", "measures gradients"},
      {"range_squares", "measures gradients"},
      {"convert", "converts messages between processes"},
      {"swap", "exchanges weights with their average"},
      {"find_nonfinite", "looks for NaN and infinities"},
      {"update_squares", "measures the update"},
      {"begin_step", "sets the scalars of a step"},
      {"finalize_grad_norm", "measures gradients"},
      {"clamp", "clips gradients"},
      {"adamw", "the update itself"},
      {"muon", "the update itself"},
      {"syrk", "serves the update"},
      {"ema", "averages weights"},
  };
  return list;
}

class OpGradient : public ::testing::TestWithParam<CheckedOp> {};

TEST_P(OpGradient, AgreesWithFiniteDifferences) {
  const auto& [name, forward] = GetParam();
  const KernelTable table = checking_table();
  std::map<std::string, int> before = test::op_calls();
  Check::count() = 0;
  for (const RegisteredOp& op : registered_ops()) {
    if (op.op != name) continue;
    OpCaseList list;
    op.cases(list);
    for (const OpCase& c : list.cases) {
      SCOPED_TRACE(name + " " + c.name);
      OpFrame frame({.kernels = table, .dtype = DType::f64}, name + " " + c.name);
      c.body(frame);
    }
  }
  RecordProperty("checked", Check::count());
  EXPECT_GE(Check::count(), 5) << "too few cases of up to " << kMostElements << " elements";
  for (const std::string& op : {name, forward})
    EXPECT_GT(test::op_calls()[op], before[op]) << op << " was not called";
}

INSTANTIATE_TEST_SUITE_P(All, OpGradient, ::testing::ValuesIn(checked_ops()),
                         [](const auto& param) { return param.param.op; });

TEST(OpGradientRegistry, EveryOpHasACheckOrAReason) {
  std::set<std::string> checked;
  for (const CheckedOp& c : checked_ops())
    checked.insert({c.op, c.forward});
  size_t without = 0;
#define GPT_CHECK_OP(name, Args)                                       \
  without += ops_without_gradient().count(#name);                      \
  EXPECT_NE(checked.count(#name), ops_without_gradient().count(#name)) \
      << #name ": add a check of its gradient, or say why there is none (not both)";
  GPT_FOR_EACH_OP(GPT_CHECK_OP)
#undef GPT_CHECK_OP
  EXPECT_EQ(without, ops_without_gradient().size()) << "a reason for what is no op";
}

}  // namespace
}  // namespace gpt::testing
