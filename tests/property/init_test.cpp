// Tests the initial values and the number of parameters.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "model/presets.h"
#include "model/training_graph.h"
#include "support/backend.h"
#include "support/names.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};

Moments moments(const TensorView& w) {
  Moments m;
  const auto n = static_cast<double>(w.size());
  const std::vector<float> values = floats(w);
  for (const float x : values) {
    m.mean += double{x} / n;
    m.largest = std::max(m.largest, std::abs(double{x}));
  }
  for (const float x : values)
    m.deviation += std::pow(x - m.mean, 2) / n;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

struct Started {
  explicit Started(const ModelConfig& config, uint64_t seed = 1)
      : model(config), weights(model.table, DType::f32, "weights", device()) {
    init_params(model.table, weights, seed);
    model.weights.assign(weights.views().begin(), weights.views().end());
  }
  TensorView operator()(Role role, int64_t layer = -1) const {
    return weights[model.table.find(role, layer)];
  }
  Model model;
  ParamBuffer weights;
};

ModelConfig wide(const std::string& family, const std::string& keys) {
  nlohmann::json all = {{"vocab_size", 200}, {"n_ctx", 64}, {"n_embd", 64}, {"d_ff", 256}, {"n_layer", 3}};
  all.update(nlohmann::json::parse(keys));
  return make_config({family, family, all.dump()});
}

// The standard deviation of n samples is within 5 standard errors, sigma / sqrt(2n), of the true one.
void expect_normal(const TensorView& w, double deviation, const char* what) {
  const Moments m = moments(w);
  const auto n = static_cast<double>(w.size());
  EXPECT_NEAR(m.deviation, deviation, 5 * deviation / std::sqrt(2 * n)) << what;
  EXPECT_NEAR(m.mean, 0, 5 * deviation / std::sqrt(n)) << what;
  EXPECT_GT(m.largest, 2.5 * deviation) << what << ": no tails";
}

// The distribution is uniform in +-1/sqrt(in). All values are within these bounds, and some come close to
// them.
void expect_uniform(const TensorView& w, int64_t in, const char* what) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const Moments m = moments(w);
  EXPECT_LE(m.largest, bound * (1 + 1e-6)) << what;
  EXPECT_GT(m.largest, bound * 0.9) << what;
  if (w.size() > 1000) {
    EXPECT_NEAR(m.deviation, bound / std::sqrt(3.0), 0.05 * bound) << what;
  }
}

void expect_constant(const TensorView& w, float value, const char* what) {
  for (const float x : floats(w))
    ASSERT_EQ(x, value) << what;
}

TEST(Init, NormalWithAndWithoutResidualScale) {
  const Started gpt2(wide("gpt2", "{}"));
  expect_normal(gpt2(Role::wte), 0.02, "wte");
  expect_normal(gpt2(Role::wpe), 0.02, "wpe");
  expect_normal(gpt2(Role::q_weight, 1), 0.02, "q");
  expect_normal(gpt2(Role::up_proj_weight, 2), 0.02, "fc");
  expect_normal(gpt2(Role::out_weight, 0), 0.02 / std::sqrt(6.0), "out");
  expect_normal(gpt2(Role::down_proj_weight, 2), 0.02 / std::sqrt(6.0), "proj");
  for (Role bias :
       {Role::q_bias, Role::out_bias, Role::up_proj_bias, Role::down_proj_bias, Role::norm1_bias}) {
    expect_constant(gpt2(bias, 0), 0, "biases");
  }
  expect_constant(gpt2(Role::norm2_gain, 1), 1, "gain");
  expect_constant(gpt2(Role::final_gain), 1, "final gain");
  const Started plain(wide("mini-gpt", R"({"init_std": 0.1})"));
  expect_normal(plain(Role::down_proj_weight, 2), 0.1, "proj without the scale");
}

TEST(Init, TorchBounds) {
  const Started m(wide("gpt2-scratch", R"({"head_bias": true, "qkv_bias": true})"));
  expect_normal(m(Role::wte), 1, "wte");
  expect_normal(m(Role::wpe), 1, "wpe");
  expect_uniform(m(Role::q_weight, 0), 64, "q");
  expect_uniform(m(Role::q_bias, 0), 64, "q bias");
  expect_uniform(m(Role::out_weight, 1), 64, "out");
  expect_uniform(m(Role::up_proj_bias, 1), 64, "fc bias");
  expect_uniform(m(Role::down_proj_weight, 1), 256, "proj");
  expect_uniform(m(Role::down_proj_bias, 1), 256, "proj bias");
  expect_uniform(m(Role::head_weight), 64, "head");
}

TEST(Init, NanochatStartsAtLogV) {
  for (const char* family : {"nanochat", "nanochat-doc"}) {
    const ModelConfig c = wide(family, R"({"n_kv_head": 2})");
    const Started m(c);
    expect_normal(m(Role::wte), 1, "wte");
    expect_normal(m(Role::q_weight, 0), 1 / 8.0, "q: square, 1/sqrt(64)");
    expect_normal(m(Role::k_weight, 0), std::sqrt(0.5) / 8.0, "k: half as many outputs as inputs");
    expect_normal(m(Role::up_proj_weight, 0), 1 / 8.0, "fc: more outputs than inputs");
    expect_constant(m(Role::out_weight, 2), 0, "out");
    expect_constant(m(Role::down_proj_weight, 2), 0, "proj");
    expect_constant(m(Role::head_weight), 0, "head");
    ThreadPool pool(1);
    const std::vector<int32_t> ids = random_ids(32, c.vocab_size, 1),
                               targets = random_ids(32, c.vocab_size, 2);
    for (Isa isa : available_isas()) {
      TrainingGraph graph(m.model, 2, 16, {.gradients = false, .dtype = DType::f32}, backend(pool, isa));
      const double loss = graph.loss({.ids = ids.data(), .targets = targets.data()}) / 32;
      // All logits are zero, so the only error is the rounding of one sum of exponentials.
      EXPECT_NEAR(loss, std::log(static_cast<double>(c.vocab_size)), isa == Isa::ref ? 1e-14 : 1e-6)
          << isa_name(isa);
    }
  }
}

TEST(Init, DependsOnTheSeedAlone) {
  const ModelConfig c = wide("gpt2", "{}");
  const Started a(c, 1), b(c, 1), other(c, 2);
  EXPECT_TRUE(same_bytes(a.weights.all(), b.weights.all()));
  EXPECT_FALSE(same_bytes(a(Role::wte), other(Role::wte)));
  // No two parameters have the same values.
  EXPECT_FALSE(same_bytes(a(Role::q_weight, 0), a(Role::q_weight, 1)));
  EXPECT_FALSE(same_bytes(a(Role::q_weight, 0), a(Role::k_weight, 0)));
}

// ---------------------------------------------------------------------------------------------------
// Exact parameter counts, computed by hand and with the calculator of each original project.

ModelConfig complete_preset(const std::string& name, const std::string& keys = "{}") {
  ModelConfig c = preset_config(name);
  read_model_keys(nlohmann::json::parse(keys), c);
  complete(c);
  return c;
}

int64_t count(const std::string& name, const std::string& keys = "{}") {
  return ParamTable(complete_preset(name, keys)).total();
}

TEST(Counts, OfEveryPresetAreExact) {
  EXPECT_EQ(count("mini-gpt"), 10834944);
  EXPECT_EQ(count("gpt1"), 116534784);
  EXPECT_EQ(count("gpt1-preln"), 116536320);
  EXPECT_EQ(count("gpt2"), 124439808);
  EXPECT_EQ(count("gpt2", R"({"qkv_bias": false, "out_bias": false})"), 124402944);
  EXPECT_EQ(count("gpt2-medium"), 354823168);
  EXPECT_EQ(count("gpt2-large"), 774030080);
  EXPECT_EQ(count("gpt2-xl"), 1557611200);
  EXPECT_EQ(count("gpt2-scratch"), 163009536);
  EXPECT_EQ(count("gpt2-scratch", R"({"tie_embeddings": true})"), 124412160);
  EXPECT_EQ(count("gpt3-175b"), 174604259328);
  EXPECT_EQ(count("gpt3-175b", R"({"qkv_bias": false, "out_bias": false})"), 174599540736);
  EXPECT_EQ(count("llama3-8b"), 8030261248);
  EXPECT_EQ(count("nanochat-demo"), 3407872);
  EXPECT_EQ(count("nanochat-demo", R"({"n_kv_head": 2})"), 3145728);
  EXPECT_EQ(count("nanochat-demo", R"({"n_kv_head": 1})"), 3014656);
  EXPECT_EQ(count("nanochat"), 162201600);
  EXPECT_EQ(count("nanochat-d20"), 560988160);
  EXPECT_EQ(count("nanochat-d26"), 1081999360);
  EXPECT_EQ(count("nanochat-d32"), 1879048192);
  EXPECT_EQ(count("nanochat-d20", R"({"n_embd": 512, "n_head": 8, "n_kv_head": 1})"), 120848384);
  EXPECT_EQ(count("mini-gpt", R"({"n_layer": 2, "n_embd": 512, "d_ff": 2048, "n_head": 8})"), 6563840);
  EXPECT_EQ(count("mini-gpt", R"({"n_layer": 8, "n_embd": 256, "d_ff": 1024, "n_head": 8})"), 6441472);
}

TEST(Counts, ByComponent) {
  std::map<Component, int64_t> parts;
  const ParamTable table(complete_preset("mini-gpt"));
  int64_t decayed = 0, other = 0;
  for (const ParamSpec& spec : table.specs()) {
    parts[spec.component] += spec.size();
    (spec.decay ? decayed : other) += spec.size();
  }
  EXPECT_EQ(parts[Component::token_embedding], 98304);
  EXPECT_EQ(parts[Component::position_embedding], 98304);
  EXPECT_EQ(parts[Component::attention], 6 * 589824);
  EXPECT_EQ(parts[Component::mlp], 6 * 1181568);
  EXPECT_EQ(parts[Component::norm], 6 * 1536);
  EXPECT_EQ(parts[Component::final_norm], 768);
  EXPECT_EQ(parts[Component::head], 0);
  EXPECT_EQ(decayed, 10813440);
  EXPECT_EQ(other, 21504);
}

TEST(Counts, EveryPresetCompletes) {
  for (const std::string& name : preset_names()) {
    EXPECT_TRUE(is_preset(name));
    ModelConfig c = preset_config(name);
    EXPECT_NO_THROW(complete(c, c.vocab_size > 0)) << name;
    if (c.vocab_size > 0) {
      EXPECT_GT(ParamTable(c).total(), 0) << name;
    }
  }
  EXPECT_ERROR(preset_config("gpt5"), ErrorCode::invalid_argument);
  EXPECT_ERROR(preset_config("nanochat-d21"), ErrorCode::invalid_argument);
  EXPECT_ERROR(preset_config("nanochat-d34"), ErrorCode::invalid_argument);
}

// Parameters are stored in table order, aligned and without overlap. A parameter that is
// contiguous_with_previous starts where the previous one ends.
TEST(Params, LieInOneBuffer) {
  for (const SmallConfig& small : small_configs()) {
    const Model model(make_config(small));
    const ParamBuffer buffer(model.table, DType::f32, "weights");
    const float* end = buffer.all().as<float>();
    for (int id = 0; id < model.table.count(); ++id) {
      const float* begin = buffer[id].as<float>();
      EXPECT_GE(begin, end) << small.name << " " << model.table[id].name;
      if (model.table[id].contiguous_with_previous) {
        EXPECT_EQ(begin, end) << small.name << " " << model.table[id].name;
      } else {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(begin) % 64, 0u) << small.name << " " << model.table[id].name;
      }
      end = begin + buffer[id].size();
    }
    EXPECT_EQ(end - buffer.all().as<float>(), param_buffer_elements(model.table));
    std::set<std::string> names;
    for (const ParamSpec& spec : model.table.specs())
      EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
  }
}

}  // namespace
}  // namespace gpt::test
