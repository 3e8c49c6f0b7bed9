// Every op against finite differences. A case names the ops it checks; the last tests fail when an op of
// the list is in no case, or a case does not call what it names.

#include <gtest/gtest.h>

#include <set>

#include "grad/finite_difference.h"
#include "grad/op_bench.h"

namespace gpt::test {
namespace {

void check_embedding() {
  for (bool with_positions : {true, false}) {
    OpBench b;
    const int32_t ids[] = {3, 0, 3, 5, 1};
    const int32_t positions[] = {0, 1, 2, 0, 1};
    const TensorView wte = b.normal({6, 7}), wpe = with_positions ? b.normal({4, 7}) : TensorView{};
    const TensorView out = b.zeros({5, 7}), dout = b.normal({5, 7});
    const auto loss = [&] {
      b.ops().embedding_forward(b.ctx(),
                                {.out = out, .ids = ids, .positions = positions, .wte = wte, .wpe = wpe});
      return dot(out, dout);
    };
    const TensorView dwte = b.normal({6, 7}),
                     dwpe = with_positions ? b.normal({4, 7}) : TensorView{};  // adds to it
    const std::vector<double> wte_before = copy_values(dwte);
    const std::vector<double> wpe_before = with_positions ? copy_values(dwpe) : std::vector<double>{};
    b.ops().embedding_backward(
        b.ctx(), {.dout = dout, .ids = ids, .positions = positions, .dwte = dwte, .dwpe = dwpe});
    std::vector<Variable> variables = {{"wte", wte, minus(copy_values(dwte), wte_before)}};
    if (with_positions) variables.push_back({"wpe", wpe, minus(copy_values(dwpe), wpe_before)});
    GradientCheck(loss, 1).run(variables);
  }
}

struct NormCase {
  NormKind kind;
  bool gain, bias, add;
};

void check_norm_case(const NormCase& c) {
  SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(c.kind) << " gain " << c.gain << " bias "
                                  << c.bias << " add " << c.add);
  OpBench b;
  const int64_t N = 37, C = 6;  // more rows than one partial sum has
  const TensorView x = b.normal({N, C}), add = c.add ? b.normal({N, C}) : TensorView{};
  const TensorView gain = c.gain ? b.normal({C}) : TensorView{}, bias = c.bias ? b.normal({C}) : TensorView{};
  const TensorView out = b.zeros({N, C}), sum = c.add ? b.zeros({N, C}) : TensorView{};
  const TensorView mean = c.kind == NormKind::layer ? b.zeros({N}) : TensorView{}, rstd = b.zeros({N});
  const TensorView dout = b.normal({N, C}), dresidual = c.add ? b.normal({N, C}) : TensorView{};
  const auto loss = [&] {
    b.ops().norm_forward(b.ctx(), {.kind = c.kind,
                                   .eps = 1e-2,
                                   .out = out,
                                   .x = x,
                                   .gain = gain,
                                   .bias = bias,
                                   .add = add,
                                   .sum = sum,
                                   .mean = mean,
                                   .rstd = rstd});
    return dot(out, dout) + (c.add ? dot(sum, dresidual) : 0);
  };
  loss();
  const TensorView dx = b.zeros({N, C});
  const TensorView dgain = c.gain ? b.normal({C}) : TensorView{},
                   dbias = c.bias ? b.normal({C}) : TensorView{};
  const std::vector<double> gain_before = c.gain ? copy_values(dgain) : std::vector<double>{};
  const std::vector<double> bias_before = c.bias ? copy_values(dbias) : std::vector<double>{};
  NormBackwardArgs args{.kind = c.kind,
                        .dx = dx,
                        .dout = dout,
                        .x = c.add ? sum : x,
                        .gain = gain,
                        .mean = mean,
                        .rstd = rstd,
                        .dresidual = dresidual,
                        .dgain = dgain,
                        .dbias = dbias};
  b.ops().norm_backward(b.ctx(), args);
  std::vector<Variable> variables = {{"x", x, copy_values(dx)}};
  if (c.add) variables.push_back({"add", add, copy_values(dx)});
  if (c.gain) variables.push_back({"gain", gain, minus(copy_values(dgain), gain_before)});
  if (c.bias) variables.push_back({"bias", bias, minus(copy_values(dbias), bias_before)});
  GradientCheck(loss, 2).run(variables);

  // In place: dx may be dout.
  loss();  // the statistics of the unchanged x
  const TensorView in_place = b.copy(dout);
  args.dx = args.dout = in_place;
  args.dgain = args.dbias = {};
  b.ops().norm_backward(b.ctx(), args);
  EXPECT_EQ(copy_values(in_place), copy_values(dx));
}

void check_norm() {
  for (NormKind kind : {NormKind::layer, NormKind::rms}) {
    for (bool gain : {false, true}) {
      for (bool bias : {false, true}) {
        if (bias && (kind == NormKind::rms || !gain)) continue;
        for (bool add : {false, true})
          check_norm_case({kind, gain, bias, add});
      }
    }
  }
}

// The views are columns of wider matrices, as those of q, k and v are.
void check_linear() {
  for (bool accumulate : {false, true}) {
    for (bool with_bias : {false, true}) {
      OpBench b;
      const int64_t N = 11, I = 5, O = 7;
      const TensorView x = b.normal({N, I}), w = b.normal({O, I}),
                       bias = with_bias ? b.normal({O}) : TensorView{};
      const TensorView y = b.zeros({N, O + 3}).columns(2, O), dy = b.normal({N, O + 3}).columns(1, O);
      const auto loss = [&] {
        b.ops().linear_forward(b.ctx(), {.y = y, .x = x, .w = w, .bias = bias});
        return dot(y, dy);
      };
      const TensorView dx = b.normal({N, I}), dw = b.normal({O, I}),
                       dbias = with_bias ? b.normal({O}) : TensorView{};
      const auto before = [&](const TensorView& v) {
        return accumulate ? copy_values(v) : std::vector<double>(static_cast<size_t>(v.size()));
      };
      const std::vector<double> x0 = before(dx), w0 = before(dw);
      const std::vector<double> b0 = with_bias ? before(dbias) : std::vector<double>{};
      b.ops().linear_backward_input(b.ctx(), {.dx = dx, .dy = dy, .w = w, .accumulate = accumulate});
      b.ops().linear_backward_weight(b.ctx(),
                                     {.dw = dw, .dbias = dbias, .dy = dy, .x = x, .accumulate = accumulate});
      std::vector<Variable> variables = {{"x", x, minus(copy_values(dx), x0)},
                                         {"w", w, minus(copy_values(dw), w0)}};
      if (with_bias) variables.push_back({"bias", bias, minus(copy_values(dbias), b0)});
      GradientCheck(loss, 3).run(variables);
    }
  }
}

void check_act() {
  for (Act act : {Act::gelu_tanh, Act::gelu, Act::relu, Act::relu2, Act::swiglu}) {
    SCOPED_TRACE(testing::Message() << "act " << static_cast<int>(act));
    OpBench b;
    const TensorView x = b.normal({9, 8}, 2), gate = act == Act::swiglu ? b.normal({9, 8}, 2) : TensorView{};
    for (int64_t i = 0; i < x.size(); ++i) {  // relu has no derivative at zero
      double& v = x.as<double>()[i];
      if (std::abs(v) < 1e-3) v = 0.5;
    }
    const TensorView out = b.zeros({9, 8}), dout = b.normal({9, 8});
    const auto loss = [&] {
      b.ops().act_forward(b.ctx(), {.act = act, .out = out, .x = x, .gate = gate});
      return dot(out, dout);
    };
    const TensorView dx = b.copy(dout);  // in place
    const TensorView dgate = act == Act::swiglu ? b.zeros({9, 8}) : TensorView{};
    b.ops().act_backward(b.ctx(), {.act = act, .dx = dx, .dgate = dgate, .dout = dx, .x = x, .gate = gate});
    std::vector<Variable> variables = {{"x", x, copy_values(dx)}};
    if (gate) variables.push_back({"gate", gate, copy_values(dgate)});
    GradientCheck(loss, 4).run(variables);
  }
}

void check_rope() {
  for (int sign : {1, -1}) {
    for (bool interleaved : {false, true}) {
      OpBench b;
      const int64_t N = 5, H = 3, D = 6;
      const int32_t positions[] = {0, 1, 5, 2, 5};
      const TensorView cos = b.zeros({6, D / 2}), sin = b.zeros({6, D / 2});
      for (int64_t p = 0; p < 6; ++p) {
        for (int64_t i = 0; i < D / 2; ++i) {
          const double angle = static_cast<double>(p) / static_cast<double>(1 + i);
          cos.row<double>(p)[i] = std::cos(angle);
          sin.row<double>(p)[i] = std::sin(angle);
        }
      }
      const TensorView x = b.normal({N, H * D}), y = b.zeros({N, H * D + 4}).columns(3, H * D);
      const TensorView dy = b.normal({N, H * D});
      RopeArgs args{.x = y,
                    .n_head = H,
                    .head_dim = D,
                    .positions = positions,
                    .cos = cos,
                    .sin = sin,
                    .sign = sign,
                    .interleaved = interleaved};
      const auto loss = [&] {
        OpBench::assign(y, x);
        b.ops().rope(b.ctx(), args);
        return dot(y, dy);
      };
      const TensorView dx = b.copy(dy);
      RopeArgs back = args;
      back.x = dx;
      back.sign = -sign;
      b.ops().rope(b.ctx(), back);
      GradientCheck(loss, 5).run({{"x", x, copy_values(dx)}});
    }
  }
}

void check_head_norm() {
  OpBench b;
  const int64_t N = 5, H = 3, D = 6;
  const TensorView x = b.normal({N, H * D}), y = b.zeros({N, H * D}), rstd = b.zeros({N, H}),
                   dy = b.normal({N, H * D});
  const auto loss = [&] {
    OpBench::assign(y, x);
    b.ops().head_norm_forward(b.ctx(), {.eps = 1e-2, .x = y, .n_head = H, .head_dim = D, .rstd = rstd});
    return dot(y, dy);
  };
  loss();
  const TensorView dx = b.copy(dy);
  b.ops().head_norm_backward(b.ctx(), {.dx = dx, .y = y, .rstd = rstd, .n_head = H, .head_dim = D});
  GradientCheck(loss, 6).run({{"x", x, copy_values(dx)}});
}

void check_dropout() {
  for (double p : {0.0, 0.3, 0.9}) {
    OpBench b;
    const DropoutKey key{.p = p, .key = dropout_key(1, 2, 3, 4), .first_row = 17};
    const TensorView x = b.normal({9, 7}), out = b.zeros({9, 7}), dout = b.normal({9, 7}), dx = b.copy(dout);
    const auto loss = [&] {
      b.ops().dropout(b.ctx(), {.out = out, .x = x, .dropout = key});
      return dot(out, dout);
    };
    b.ops().dropout(b.ctx(), {.out = dx, .x = dx, .dropout = key});
    GradientCheck(loss, 7).run({{"x", x, copy_values(dx)}});
  }
}

struct AttentionCase {
  int64_t n_head, n_kv_head, window;
  double dropout;
};

void check_attention_case(const AttentionCase& c) {
  SCOPED_TRACE(testing::Message() << c.n_head << " heads, " << c.n_kv_head << " kv, window " << c.window
                                  << ", dropout " << c.dropout);
  OpBench b;
  const int64_t D = 4, N = 11, Q = c.n_head * D, K = c.n_kv_head * D;
  const AttentionSeq seqs[] = {{.q_start = 0, .q_len = 4, .kv_len = 4, .kv_start = 0},
                               {.q_start = 4, .q_len = 7, .kv_len = 7, .kv_start = 4}};
  const AttentionShape shape{.n_head = c.n_head,
                             .n_kv_head = c.n_kv_head,
                             .head_dim = D,
                             .scale = 0.7,
                             .window = c.window,
                             .dropout = {.p = c.dropout, .key = dropout_key(5, 6, 7, 8), .first_row = 22},
                             .dropout_stride = 12};
  const TensorView qkv = b.normal({N, Q + 2 * K}), out = b.zeros({N, Q}), lse = b.zeros({N, c.n_head});
  const TensorView q = qkv.columns(0, Q), k = qkv.columns(Q, K), v = qkv.columns(Q + K, K);
  const TensorView dout = b.normal({N, Q}), dqkv = b.normal({N, Q + 2 * K});
  const auto loss = [&] {
    b.ops().attention_forward(b.ctx(),
                              {.shape = shape, .seqs = seqs, .out = out, .q = q, .k = k, .v = v, .lse = lse});
    return dot(out, dout);
  };
  loss();
  b.ops().attention_backward(b.ctx(), {.shape = shape,
                                       .seqs = seqs,
                                       .dq = dqkv.columns(0, Q),
                                       .dk = dqkv.columns(Q, K),
                                       .dv = dqkv.columns(Q + K, K),
                                       .dout = dout,
                                       .out = out,
                                       .q = q,
                                       .k = k,
                                       .v = v,
                                       .lse = lse});
  GradientCheck(loss, 8).run({{"q", q, copy_values(dqkv.columns(0, Q))},
                              {"k", k, copy_values(dqkv.columns(Q, K))},
                              {"v", v, copy_values(dqkv.columns(Q + K, K))}},
                             200);
}

void check_attention() {
  for (const auto& [heads, kv] : {std::pair<int64_t, int64_t>{2, 2}, {4, 2}, {3, 1}}) {
    for (int64_t window : {0, 3}) {
      for (double dropout : {0.0, 0.25})
        check_attention_case({heads, kv, window, dropout});
    }
  }
}

void check_cross_entropy() {
  for (double softcap : {0.0, 3.0}) {
    for (double scale : {1.0, 0.125}) {
      OpBench b;
      const int64_t N = 6, V = 9;
      const int32_t targets[] = {3, -1, 0, 8, 3, -1};
      const TensorView logits = b.normal({N, V}, 2), dlogits = b.zeros({N, V});
      double losses[N];
      const auto loss = [&] {
        b.ops().cross_entropy(b.ctx(),
                              {.logits = logits, .targets = targets, .losses = losses, .softcap = softcap});
        double sum = 0;
        for (double l : losses)
          sum += l;
        return scale * sum;
      };
      const StepState step{.loss_weight = scale};
      CrossEntropyArgs args{.logits = logits,
                            .targets = targets,
                            .losses = losses,
                            .dlogits = dlogits,
                            .softcap = softcap,
                            .step = &step};
      b.ops().cross_entropy(b.ctx(), args);
      for (int64_t v = 0; v < V; ++v)
        EXPECT_EQ(dlogits.row<double>(1)[v], 0) << "a target that does not count";
      EXPECT_EQ(losses[1], 0);
      GradientCheck(loss, 9).run({{"logits", logits, copy_values(dlogits)}});

      const TensorView in_place = b.copy(logits);
      args.logits = args.dlogits = in_place;
      b.ops().cross_entropy(b.ctx(), args);
      EXPECT_EQ(copy_values(in_place), copy_values(dlogits));
    }
  }
}

void check_add() {
  OpBench b;
  const TensorView x = b.normal({5, 3}), y = b.normal({5, 3}), out = b.zeros({5, 3}), dout = b.normal({5, 3});
  const auto loss = [&] {
    b.ops().add(b.ctx(), {.out = out, .a = x, .b = y});
    return dot(out, dout);
  };
  GradientCheck(loss, 10).run({{"a", x, copy_values(dout)}, {"b", y, copy_values(dout)}});
}

struct OpCase {
  const char* name;
  std::vector<std::string> ops;
  void (*check)();
};
std::ostream& operator<<(std::ostream& out, const OpCase& c) {
  return out << c.name;
}

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = {
      {"embedding", {"embedding_forward", "embedding_backward"}, check_embedding},
      {"norm", {"norm_forward", "norm_backward"}, check_norm},
      {"linear", {"linear_forward", "linear_backward_input", "linear_backward_weight"}, check_linear},
      {"act", {"act_forward", "act_backward"}, check_act},
      {"rope", {"rope"}, check_rope},
      {"head_norm", {"head_norm_forward", "head_norm_backward"}, check_head_norm},
      {"dropout", {"dropout"}, check_dropout},
      {"attention", {"attention_forward", "attention_backward"}, check_attention},
      {"cross_entropy", {"cross_entropy"}, check_cross_entropy},
      {"add", {"add"}, check_add},
  };
  return cases;
}

// Ops that nothing is differentiated through, and why.
const std::map<std::string, std::string>& ops_without_gradient() {
  static const std::map<std::string, std::string> list = {
      {"pack_matrix", "copies weights; products with packed ones have their own op tests"},
      {"store_rows", "copies into the key/value cache, which training does not have"},
      {"keep_rows", "moves the rows whose logits are wanted, in inference"},
      {"softcap", "for logits that are shown or sampled; in the loss it is part of cross_entropy"},
      {"pack_matrix", "rearranges weights"},
      {"sum_losses", "for what is shown; gradients begin with cross_entropy"},
      {"sum_squares", "measures gradients"},
      {"finish_norm", "measures gradients"},
      {"clamp", "clips gradients"},
      {"adamw", "the update itself"},
  };
  return list;
}

class OpGradient : public testing::TestWithParam<OpCase> {};

TEST_P(OpGradient, AgreesWithFiniteDifferences) {
  std::map<std::string, int> before = op_calls();
  GetParam().check();
  for (const std::string& op : GetParam().ops)
    EXPECT_GT(op_calls()[op], before[op]) << op << " was not called";
}

INSTANTIATE_TEST_SUITE_P(All, OpGradient, testing::ValuesIn(op_cases()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(OpGradientRegistry, EveryOpHasACaseOrAReason) {
  std::set<std::string> all, checked;
#define GPT_TEST_NAME(name, Args) all.insert(#name);
  GPT_FOR_EACH_OP(GPT_TEST_NAME)
#undef GPT_TEST_NAME
  for (const OpCase& c : op_cases())
    checked.insert(c.ops.begin(), c.ops.end());
  for (const std::string& op : all) {
    EXPECT_NE(checked.count(op) > 0, ops_without_gradient().count(op) > 0)
        << op << ": add a finite-difference case, or say why there is no gradient (not both)";
  }
  for (const std::string& op : checked)
    EXPECT_TRUE(all.count(op)) << op << " is no op";
  for (const auto& [op, reason] : ops_without_gradient()) {
    EXPECT_TRUE(all.count(op)) << op << " is no op";
    EXPECT_FALSE(reason.empty()) << op;
  }
}

}  // namespace
}  // namespace gpt::test
