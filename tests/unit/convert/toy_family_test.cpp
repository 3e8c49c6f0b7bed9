// Defines a model family that the program does not know, in one file: its config.json, its tensors and its
// GGUF files.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "convert/conversion.h"
#include "io/gguf.h"
#include "io/safetensors_writer.h"
#include "model/config_alias.h"
#include "model/presets.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

constexpr ActName kActs[] = {{"smooth", Act::gelu}, {"hinge", Act::relu}};
constexpr ConfigKey kKeys[] = {
    {"tokens", &ModelConfig::vocab_size, Means::size},
    {"context", &ModelConfig::n_ctx, Means::size},
    {"depth", &ModelConfig::n_layer, Means::size},
    {"views", &ModelConfig::n_head, Means::size},
    {"width", &ModelConfig::n_embd, Means::size, "breadth"},
    {"inner_width", &ModelConfig::d_ff, Means::derived},
    {"curve", &ModelConfig::act, Means::act, nullptr, kActs},
    {"epsilon", &ModelConfig::norm_eps},
    {"forget", &ModelConfig::resid_dropout, Means::dropout},
};
constexpr FixedKey kFixed[] = {{"mirrored", {false}}};

constexpr Naming kNaming = {
    .outside = {"net.words.{1}", "net.places.{1}", "net.end.{1}", "reader.{1}"},
    .block = "net.stack.{0}.",
    .norms = {"before_mix.{1}", "before_think.{1}"},
    .qkv = {"mix.ask_key_value.{1}"},
    .linear = {"mix.back.{1}", "think.open.{1}", "think.close.{1}"},
    .transposed_blocks = true,
    .norm_words = {"gain", "shift"},
};

constexpr Preset kPresets[] = {{.name = "toy-small",
                                .purpose = "a toy",
                                .shape = {.n_embd = 32},
                                .more = [](ModelConfig& c) { c.norm_eps = 0.5; },
                                .training = {.steps = 70}}};

constexpr const char* kTelling[] = {"playthings"};
constexpr ConfigKey kOwnKeys[] = {{"playthings", &ModelConfig::n_head}};
constexpr ForeignNames::Training kTraining[] = {{"rounds", "steps"}};
constexpr ForeignNames kForeignNames[] = {{.telling = kTelling,
                                           .program = "toybox",
                                           .remedy = "`preset` toy-small",
                                           .keys = kOwnKeys,
                                           .training = kTraining}};

constexpr Family kToy = {
    .name = "toy",
    .switches =
        [](ModelConfig& c) {
          c.norm = NormKind::rms;
          c.act = Act::gelu;
          c.qkv_bias = c.out_bias = c.mlp_bias = c.tie_embeddings = false;
        },
    .presets = kPresets,
    .namings = {&kNaming},
    .keys = kKeys,
    .missing = {.vocab_size = 100, .n_ctx = 32, .n_layer = 2, .n_head = 4, .n_embd = 16},
    .missing_dropout = 0,
    .eos_token_id = 7,
    .fixed = kFixed,
    .causal_lm = "ToyForCausalLM",
    .gguf = {"toy", &kGgufNaming},
    .foreign_names = kForeignNames,
};
const AddFamily kAdded(kToy);

void expect_same_model(const Model& expected, const LoadedModel& found) {
  ASSERT_EQ(expected.table.count(), found.model().table.count());
  for (int id = 0; id < expected.table.count(); ++id) {
    const auto i = static_cast<size_t>(id);
    EXPECT_TRUE(same_bytes(expected.weights[i], found.model().weights[i])) << expected.table[id].name;
  }
}

class ToyFamily : public testing::Test {
 protected:
  ToyFamily() {
    random.model.config.eos_token_ids = {7};
    write_plain_file(dir.file("config.json"),
                     R"({"model_type": "toy", "tokens": 23, "context": 12, "breadth": 16,
                                                  "inner_width": 24, "mirrored": false})");
    write_safetensors(dir.file("model.safetensors"),
                      named_weights(random.model, random.model.weights, kNaming, DType::f32),
                      {{"format", "pt"}});
  }
  RandomModel random{make_config({"toy", "toy", "{}"}), DType::f32};
  TempDir dir;
};

TEST_F(ToyFamily, IsReadAndWritten) {
  const LoadedModel loaded(dir.path(), DType::f32, MatrixOrder::rows, {}, device());
  EXPECT_EQ(loaded.model().config, random.model.config);
  EXPECT_EQ(&loaded.naming(), &kNaming);
  expect_same_model(random.model, loaded);

  TempDir again;
  write_model(again.path(), loaded.model(), loaded.model().weights);
  const nlohmann::json config = nlohmann::json::parse(read_file(again.file("config.json")));
  EXPECT_EQ(config["model_type"], "toy");
  EXPECT_EQ(config["architectures"][0], "ToyForCausalLM");
  EXPECT_EQ(config["curve"], "smooth");
  EXPECT_EQ(config["inner_width"], 24);
  EXPECT_EQ(LoadedModel(again.path()).model().config, random.model.config);
  EXPECT_EQ(read_file(again.file("model.safetensors")), read_file(dir.file("model.safetensors")));
}

TEST_F(ToyFamily, GoesThroughGguf) {
  const LoadedModel loaded(dir.path(), DType::f32, MatrixOrder::rows, {}, device());
  const Conversion conversion(loaded, {.to = ModelFormat::gguf});
  EXPECT_EQ(conversion.target(), "GGUF toy");
  conversion.write(dir.file("toy.gguf"));
  EXPECT_EQ(GgufFile(dir.file("toy.gguf")).need_string("general.architecture"), "toy");
  const LoadedModel back(dir.file("toy.gguf"), DType::f32, MatrixOrder::rows, {}, device());
  EXPECT_EQ(&export_family(back.model().config), &kToy);
  expect_same_model(random.model, back);
}

TEST_F(ToyFamily, SaysWhatItLacks) {
  const auto refusal = [&](const char* keys) {
    nlohmann::json object = {{"model_type", "toy"}};
    object.update(nlohmann::json::parse(keys));
    return error_of([&] { model_config_from_json(object, "config.json"); });
  };
  EXPECT_TRUE(
      test::names(refusal(R"({"curve": "step"})"), {"config.json", "curve", "smooth", "hinge", "step"}));
  EXPECT_TRUE(test::names(refusal(R"({"mirrored": true})"), {"config.json", "mirrored"}));
  EXPECT_TRUE(test::names(refusal(R"({"breadth": 17})"), {"config.json", "breadth", 17}));
  ModelConfig c = random.model.config;
  c.qk_norm = true;
  EXPECT_EQ(&export_family(c), &family::own);
}

TEST_F(ToyFamily, HasNamesOfItsOwn) {
  EXPECT_EQ(translate_aliases({{"playthings", 3}, {"rounds", 5}, {"curve", "smooth"}}),
            (nlohmann::json{{"n_head", 3}, {"steps", 5}, {"act", "gelu"}}));
  EXPECT_EQ(config_key_of("rounds"), "steps");
  const std::string refusal = error_of([] { require_family({{"playthings", 3}}, "seed.json"); });
  EXPECT_TRUE(names(refusal, {"seed.json", "playthings", "toybox", "`preset` toy-small"}));
}

TEST_F(ToyFamily, HasModulesAndPresets) {
  EXPECT_EQ(module_name(kNaming, Role::k_weight), "ask_key_value");
  EXPECT_EQ(module_name(kNaming, Role::down_proj_weight), "close");
  EXPECT_EQ(module_name(kNaming, Role::gate_proj_weight), "");
  EXPECT_EQ(module_name(*family::gpt2.namings[0], Role::v_weight), "c_attn");
  EXPECT_EQ(module_name(*family::qwen2.namings[0], Role::out_weight), "o_proj");
  const ModelConfig c = preset_config("toy-small");
  EXPECT_EQ(c.norm, NormKind::rms);
  EXPECT_EQ(c.n_embd, 32);
  EXPECT_EQ(c.norm_eps, 0.5);
  EXPECT_EQ(preset_keys("toy-small")["steps"], 70);
}

}  // namespace
}  // namespace gpt::test
