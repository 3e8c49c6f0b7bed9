// Tests each layer class separately in double. Compares the gradients of its parameters and of its input with
// finite differences. The last test fails if a header in src/model/layers has no case.

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "grad/finite_difference.h"
#include "grad/op_bench.h"
#include "model/objective.h"
#include "model/rope_table.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

// A model in double with the data that a ForwardContext needs for two sequences.
class LayerBench : public OpBench {
 public:
  explicit LayerBench(const ModelConfig& c)
      : random(c, DType::f64), grads(random.model.table, DType::f64, "test gradients") {
    for (const RopeConfig& rope : random.model.layers.ropes)
      rope_.emplace_back(rope, c.n_ctx, DType::f64);
    for (int64_t b = 0; b < 2; ++b) {
      seqs_.push_back({.q_start = b * kTokens, .q_len = kTokens, .kv_len = kTokens, .kv_start = b * kTokens});
      for (int t = 0; t < kTokens; ++t)
        positions_.push_back(t);
    }
    ids_ = random_ids(kRows, c.vocab_size, 3);
  }

  static constexpr int64_t kTokens = 7, kRows = 2 * kTokens;
  RandomModel random;
  ParamBuffer grads;
  Planner planner{{.mode = PassMode::training,
                   .rows = kRows,
                   .max_q = kTokens,
                   .max_kv = kTokens,
                   .dtype = DType::f64,
                   .compute = DType::f64},
                  counted_table()};

  const ModelConfig& config() const { return random.model.config; }
  const ParamTable& table() const { return random.model.table; }
  TensorView rows() { return zeros({kRows, config().n_embd}); }
  TensorView random_rows() { return normal({kRows, config().n_embd}); }
  void commit() { arena_ = planner.commit("test activations", nullptr); }

  ForwardContext forward() {
    ctx_.emplace_back(ctx());
    ForwardContext p{
        .ctx = ctx_.back(), .weights = {.views = random.model.weights}, .rope_tables = rope_, .first_row = 5};
    p.batch = {.rows = kRows,
               .ids = array_of(ids_),
               .positions = array_of(positions_),
               .sequences = {.seqs = array_of(seqs_), .max_q = kTokens, .max_kv = kTokens}};
    p.step = array_of(step_);
    return p;
  }
  BackwardContext backward() {
    BackwardContext p(forward());
    p.grads = grads.views();
    return p;
  }
  LayerConfig layer() const { return layer_configs(config())[0]; }

  // Returns the parameters of the layer under test with their gradients.
  std::vector<Variable> params(const std::function<bool(const ParamSpec&)>& wanted) const {
    std::vector<Variable> variables;
    for (int id = 0; id < table().count(); ++id) {
      if (wanted(table()[id]))
        variables.push_back({table()[id].name, random.weights[id], copy_values(grads[id])});
    }
    return variables;
  }

 private:
  const StepState step_{.step = 3, .seed = 11};
  std::vector<RopeTable> rope_;
  Buffer arena_;
  std::vector<AttentionSeq> seqs_;
  std::vector<int32_t> positions_, ids_;
  std::deque<ExecContext> ctx_;
};

bool in(Role role, std::initializer_list<Role> roles) {
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

bool is_attention(const ParamSpec& s) {
  return s.layer == 0 && in(s.role, {Role::q_weight, Role::k_weight, Role::v_weight, Role::q_bias,
                                     Role::k_bias, Role::v_bias, Role::out_weight, Role::out_bias});
}
bool is_mlp(const ParamSpec& s) {
  return s.layer == 0 && in(s.role, {Role::gate_proj_weight, Role::up_proj_weight, Role::gate_proj_bias,
                                     Role::up_proj_bias, Role::down_proj_weight, Role::down_proj_bias});
}

// Checks adjacent q, k and v matrices in three variants: stored as one matrix, stored as three, and with k
// frozen.
void check_linear(const ModelConfig& c) {
  for (const bool contiguous_with_previous : {true, false}) {
    for (const bool frozen : {false, true}) {
      LayerBench b(c);
      std::vector<TensorView>& weights = b.random.model.weights;
      const ParamTable& t = b.table();
      const auto id = [&](Role role) { return t.find(role, 0); };
      if (!contiguous_with_previous)
        weights[static_cast<size_t>(id(Role::k_weight))] =
            b.copy(weights[static_cast<size_t>(id(Role::k_weight))]);
      std::vector<TensorView> grads(b.grads.views().begin(), b.grads.views().end());
      if (frozen) grads[static_cast<size_t>(id(Role::k_weight))] = {};
      const Linear linear(t, {{id(Role::q_weight), id(Role::q_bias)},
                              {id(Role::k_weight), id(Role::k_bias)},
                              {id(Role::v_weight), id(Role::v_bias)}});
      ASSERT_EQ(linear.in(), c.n_embd);
      ASSERT_EQ(linear.out(), c.qkv_dim());
      const TensorView x = b.random_rows(), y = b.zeros({LayerBench::kRows, linear.out()});
      const TensorView dy = b.normal({LayerBench::kRows, linear.out()}), dx = b.rows();
      const auto loss = [&] {
        linear.forward(b.forward(), x, y);
        return dot(y, dy);
      };
      BackwardContext pass = b.backward();
      pass.grads = grads;
      linear.backward(pass, x, dy, dx, false);
      std::vector<Variable> variables = {{"x", x, copy_values(dx)}};
      for (Role role :
           {Role::q_weight, Role::k_weight, Role::v_weight, Role::q_bias, Role::k_bias, Role::v_bias}) {
        const int p = id(role);
        if (p < 0 || !grads[static_cast<size_t>(p)] || (frozen && role == Role::k_bias)) continue;
        variables.push_back(
            {t[p].name, weights[static_cast<size_t>(p)], copy_values(grads[static_cast<size_t>(p)])});
      }
      GradientCheck(loss, 1).run(variables);

      // In accumulate mode, the gradient of the input is added exactly once.
      const TensorView twice = b.copy(dx);
      linear.backward(pass, x, dy, twice, true);
      for (int64_t i = 0; i < dx.size(); ++i)
        ASSERT_NEAR(twice.as<double>()[i], 2 * dx.as<double>()[i], 1e-12);
    }
  }
}

void check_norm(const ModelConfig& c) {
  LayerBench b(c);
  const LayerConfig l = b.layer();
  const Norm norm(l.norm, l.norm_eps, b.table(), Role::norm1_gain, Role::norm1_bias, 0);
  NormStats stats;
  stats.plan(b.planner, l.norm, l.n_embd);
  b.commit();
  const TensorView x = b.random_rows(), add = b.random_rows(), sum = b.rows(), out = b.rows(),
                   dout = b.random_rows();
  const TensorView dsum = b.random_rows(), dx = b.rows();
  const auto loss = [&] {
    norm.forward(b.forward(), stats, {x, add}, out, sum);
    return dot(out, dout) + dot(sum, dsum);
  };
  loss();
  norm.backward(b.backward(), stats, sum, dout, dx, dsum);
  std::vector<Variable> variables = b.params([](const ParamSpec& s) {
    return s.layer == 0 && in(s.role, {Role::norm1_gain, Role::norm1_bias});
  });
  variables.push_back({"x", x, copy_values(dx)});
  variables.push_back({"add", add, copy_values(dx)});
  GradientCheck(loss, 2).run(variables);
}

void forward(const Mlp& layer, const ForwardContext& pass, MlpActs& acts, const TensorView& x,
             const TensorView& out) {
  layer.forward(pass, acts, x, out);
}
void forward(const SelfAttention& layer, const ForwardContext& pass, AttentionActs& acts, const TensorView& x,
             const TensorView& out) {
  layer.project(pass, acts, x);
  layer.attend(pass, acts, out);
}

template <class Layer>
Layer make_layer(const LayerBench& b) {
  if constexpr (std::is_same_v<Layer, SelfAttention>)
    return Layer(b.layer(), b.table(), 0, b.layer().rope ? 0 : -1);
  else
    return Layer(b.layer(), b.table(), 0);
}

// Checks a layer that has acts, grads, and forward and backward functions.
template <class Layer, class Acts, class Grads, class Wanted>
void check_branch(const ModelConfig& c, Wanted wanted) {
  LayerBench b(c);
  const Layer layer = make_layer<Layer>(b);
  Acts acts;
  Grads grads;
  acts.plan(b.planner, b.layer());
  grads.plan(b.planner, b.layer());
  b.commit();
  const TensorView x = b.random_rows(), out = b.rows(), dout = b.random_rows(), dx = b.random_rows();
  const std::vector<double> dx_before = copy_values(dx);
  const auto loss = [&] {
    forward(layer, b.forward(), acts, x, out);
    return dot(out, dout);
  };
  loss();
  layer.backward(b.backward(), acts, grads, x, dout, dx, true);
  std::vector<Variable> variables = b.params(wanted);
  ASSERT_FALSE(variables.empty());
  variables.push_back({"x", x, minus(copy_values(dx), dx_before)});
  GradientCheck(loss, 3).run(variables);
}

void check_attention(const ModelConfig& c) {
  check_branch<SelfAttention, AttentionActs, AttentionGrads>(c, is_attention);
}
void check_mlp(const ModelConfig& c) {
  check_branch<Mlp, MlpActs, MlpGrads>(c, is_mlp);
}

void check_block(const ModelConfig& c) {
  LayerBench b(c);
  const bool pre = b.layer().norm_position == NormPosition::pre;
  const Block block(b.layer(), b.table(), 0, b.layer().rope ? 0 : -1);
  BlockActs acts;
  BlockGrads grads;
  acts.plan(b.planner, b.layer());
  grads.plan(b.planner, b.layer());
  b.commit();
  acts.attention_out = b.rows();
  acts.mlp_out = b.rows();
  const TensorView x = b.random_rows(), branch = pre ? b.random_rows() : TensorView{}, dout = b.random_rows();
  acts.x_in = b.rows();
  acts.x_out = b.rows();
  acts.x0 = b.random_rows();
  const auto loss = [&] {
    if (!pre) OpBench::assign(acts.x_in, x);
    const Residual out = block.forward(b.forward(), acts, {x, branch});
    return dot(out.x, dout) + (out.branch ? dot(out.branch, dout) : 0);
  };
  loss();
  const TensorView dx = b.copy(dout);
  ResidualGrads d{.x = dx, .x0 = b.rows()};
  block.backward(b.backward(), acts, grads, d);
  std::vector<Variable> variables = b.params([](const ParamSpec& s) { return s.layer == 0; });
  variables.push_back({"x", x, copy_values(dx)});
  if (pre) variables.push_back({"branch", branch, copy_values(dx)});
  EXPECT_EQ(d.x0_written, b.layer().scales_input);
  if (d.x0_written) variables.push_back({"x0", acts.x0, copy_values(d.x0)});
  GradientCheck(loss, 4).run(variables, 16);
}

void check_embedding(const ModelConfig& c) {
  LayerBench b(c);
  const Embedding embedding(c, b.table());
  EmbeddingActs acts;
  acts.plan(b.planner, c);
  b.commit();
  const TensorView out = b.rows(), dout = b.random_rows();
  const auto loss = [&] {
    embedding.forward(b.forward(), acts, out);
    return dot(out, dout);
  };
  loss();
  embedding.backward(b.backward(), acts, b.copy(dout), false);
  GradientCheck(loss, 5).run(b.params([](const ParamSpec& s) { return in(s.role, {Role::wte, Role::wpe}); }));
}

// Computes the logits in chunks of five rows, so that the last chunk is shorter.
void check_head(const ModelConfig& c) {
  LayerBench b(c);
  const Head head(c, b.table());
  HeadActs acts;
  acts.plan(b.planner, c);
  b.commit();
  const TensorView x = b.random_rows(), branch = b.random_rows();
  acts.x = b.rows();
  const TensorView middle = c.middle_layer < 0 ? TensorView{} : b.random_rows();
  if (middle) acts.middle = middle;
  const std::deque<TensorView> memory = {b.zeros({5, c.vocab_size})};
  const std::vector<int32_t> targets = random_targets(LayerBench::kRows, c.vocab_size, 4);
  const DeviceTargets device_targets{.targets = array_of(targets)};
  const double scale = 0.25;
  std::vector<double> losses(LayerBench::kRows);
  const StepState step{.loss_weight = scale};
  const auto run = [&](const ForwardContext& pass, const BackwardContext* backward, const TensorView& hidden,
                       const TensorView& dhidden) {
    language_modelling().run({.pass = pass,
                              .backward = backward,
                              .layers = b.random.model.layers,
                              .targets = device_targets,
                              .memory = memory,
                              .first_param = 0,
                              .hidden = hidden,
                              .dhidden = dhidden,
                              .step = array_of(step),
                              .losses = make_view(losses.data(), {LayerBench::kRows})});
  };
  TensorView normed;
  const auto loss = [&] {
    const ForwardContext pass = b.forward();
    normed = head.forward_norm(pass, acts, {x, branch, middle});
    run(pass, nullptr, normed, {});
    double sum = 0;
    for (double l : losses)
      sum += l;
    return scale * sum;
  };
  loss();
  const BackwardContext pass = b.backward();
  const TensorView dx = b.rows(), dmiddle = b.rows();
  run(pass, &pass, normed, dx);
  head.backward_norm(pass, acts, dx, dmiddle);
  std::vector<Variable> variables = b.params([&](const ParamSpec& s) {
    return in(s.role,
              {Role::final_gain, Role::final_bias, Role::head_weight, Role::head_bias, Role::middle_scale}) ||
           (c.tie_embeddings && s.role == Role::wte);
  });
  variables.push_back({"x", x, copy_values(dx)});
  variables.push_back({"branch", branch, copy_values(dx)});
  if (middle) variables.push_back({"middle", middle, copy_values(dmiddle)});
  GradientCheck(loss, 6).run(variables);
}

struct LayerCase {
  const char* header;  // a header in src/model/layers
  void (*check)(const ModelConfig&);
};
std::ostream& operator<<(std::ostream& out, const LayerCase& c) {
  return out << c.header;
}

const std::vector<LayerCase>& layer_cases() {
  static const std::vector<LayerCase> cases = {
      {"linear", check_linear}, {"norm", check_norm},   {"attention", check_attention},
      {"mlp", check_mlp},       {"block", check_block}, {"embedding", check_embedding},
      {"head", check_head},
  };
  return cases;
}

class LayerGradient : public testing::TestWithParam<std::tuple<LayerCase, SmallConfig>> {};

TEST_P(LayerGradient, AgreesWithFiniteDifferences) {
  std::get<0>(GetParam()).check(make_config(std::get<1>(GetParam())));
}

// Returns each layer with each config that uses it. Configs without layers only use the embedding and the
// head.
std::vector<std::tuple<LayerCase, SmallConfig>> layers_of_configs() {
  std::vector<std::tuple<LayerCase, SmallConfig>> all;
  for (const LayerCase& layer : layer_cases()) {
    const bool outside = layer.check == check_embedding || layer.check == check_head;
    for (const SmallConfig& config : all_configs()) {
      if (outside || make_config(config).n_layer > 0) all.emplace_back(layer, config);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, LayerGradient, testing::ValuesIn(layers_of_configs()), [](const auto& param) {
  return test_name(std::string(std::get<0>(param.param).header) + "_" + std::get<1>(param.param).name);
});

TEST(LayerGradientRegistry, EveryLayerHasACase) {
  std::set<std::string> headers, checked;
  for (const auto& entry : std::filesystem::directory_iterator(GPT_SOURCE_DIR "/src/model/layers")) {
    if (entry.path().extension() == ".h") headers.insert(entry.path().stem().string());
  }
  for (const LayerCase& c : layer_cases())
    checked.insert(c.header);
  EXPECT_EQ(headers, checked) << "every header of src/model/layers needs a finite-difference case here";
}

}  // namespace
}  // namespace gpt::test
