#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/problems.h"
#include "base/ranges.h"
#include "model/presets.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"
#include "train/train_config.h"

namespace gpt::test {
namespace {

TEST(Settings, ErrorsNameEveryValueOfAChoice) {
  int choices = 0;
  for (const KeyInfo& key : config_keys()) {
    const bool takes_others = key.name == "tokenizer" || key.name == "device";
    if (key.choices.empty() || key.is_bool() || takes_others) continue;
    ++choices;
    const std::string error = error_of([&] {
      Settings settings;
      settings.add_text(key.name, "no-such-value", "test");
      settings.resolve();
    });
    for (const std::string& value : key.choices)
      EXPECT_TRUE(names(error, {key.name, value, "no-such-value"})) << key.name;
  }
  EXPECT_GE(choices, 10);
}

// The 2,000 warm-up steps of GPT-1 would exceed a short run.
TEST(Settings, TheWarmUpOfAPresetIsAtMostAQuarterOfTheRun) {
  const auto warmup = [](const char* preset,
                         std::initializer_list<std::pair<const char*, const char*>> keys) {
    Settings settings;
    settings.add_preset(preset);
    for (const auto& [key, value] : keys)
      settings.add_text(key, value, "test");
    return settings.resolve().train.warmup;
  };
  EXPECT_EQ(warmup("gpt1", {}), 250);
  EXPECT_EQ(warmup("gpt1-preln", {}), 250);
  EXPECT_EQ(warmup("gpt1", {{"steps", "8000"}}), 2000);
  EXPECT_EQ(warmup("gpt1", {{"steps", "100000"}}), 2000);
  EXPECT_EQ(warmup("gpt1", {{"warmup", "900"}}), 900) << "it was given";
  EXPECT_EQ(warmup("gpt1", {{"warmup", "2000"}}), 2000);
  EXPECT_EQ(warmup("mini-gpt", {}), 100);
  EXPECT_EQ(warmup("mini-gpt", {{"steps", "40"}}), 10);
}

TEST(Settings, EveryPresetIsARun) {
  const std::vector<KeyInfo> keys = config_keys();
  for (const std::string& name : preset_names()) {
    Settings settings;
    settings.add_preset(name);
    EXPECT_EQ(settings.resolve().model.n_layer, preset_config(name).n_layer) << name;
    const nlohmann::json preset = preset_keys(name);
    for (const auto& [key, value] : preset.items()) {
      EXPECT_TRUE(settings.comes_from_preset(key)) << name << " " << key;
      EXPECT_NE(find_by(keys, &KeyInfo::name, key), nullptr) << name << " " << key;
    }
  }
}

// A model_type in a file resets all settings that differ between its family and the family of the preset.
// The reset includes settings that have their default value.
TEST(Settings, AModelTypeReplacesThePresetsFamily) {
  const auto model = [](const char* preset, const char* type) {
    Settings settings;
    settings.add_preset(preset);
    settings.add_json({{"model_type", type}}, "test");
    return settings.resolve().model;
  };
  EXPECT_EQ(model("nanochat-d20", "nanochat-doc").rope_sign, 1);
  const ModelConfig gpt2 = model("llama-1b", "gpt2");
  EXPECT_EQ(gpt2.norm, NormKind::layer);
  EXPECT_EQ(gpt2.position, Position::learned);
  EXPECT_EQ(gpt2.act, Act::gelu_tanh);
  EXPECT_TRUE(gpt2.tie_embeddings);
  EXPECT_EQ(gpt2.n_layer, 16) << "the shape is the preset's";
}

// A deeply nested value is rejected as a number, and no code recurses into it.
TEST(Settings, DeepValuesAreRefused) {
  for (const char bracket : {'[', '{'}) {
    Settings settings;
    EXPECT_ERROR(
        {
          settings.add_text("lr", std::string(200000, bracket), "test");
          settings.resolve();
        },
        ErrorCode::invalid_argument);
  }
  Settings settings;
  EXPECT_ERROR(
      {
        settings.add_text("lr", std::string(200000, '[') + std::string(200000, ']'), "test");
        settings.resolve();
      },
      ErrorCode::invalid_argument);
}

TEST(Settings, AllThatIsWrongIsReportedTogether) {
  const auto problems = [](std::initializer_list<std::pair<const char*, const char*>> keys) {
    Settings settings;
    for (const auto& [key, value] : keys)
      settings.add_text(key, value, "test");
    try {
      settings.resolve();
    } catch (const Errors& several) {
      return std::ssize(several.errors());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      return std::ptrdiff_t{1};
    }
    return std::ptrdiff_t{0};
  };
  EXPECT_EQ(problems({{"lr", "1e-3"}}), 0);
  EXPECT_EQ(problems({{"lr", "-1"}}), 1) << "not of min_lr too, which follows it";
  EXPECT_EQ(problems({{"lr", "-1"}, {"steps", "0"}, {"dtype", "fp8"}, {"optimizer", "sgd"}, {"n_head", "7"}}),
            5);
}

// The shape keys of another project are not sufficient. A preset, a model or a model_type must provide the
// other settings.
TEST(Settings, ASeedsFileNeedsItsFamily) {
  const TempDir dir;
  const std::string file = dir.file("seed.json");
  write_file_atomic(file, R"({"emb_dim": 64, "context_length": 32, "n_heads": 2, "n_layers": 1})");
  const auto given = [&](auto&& before) {
    return error_of([&] {
      Settings settings;
      before(settings);
      settings.add_file(file);
      settings.resolve();
    });
  };
  EXPECT_TRUE(names(given([](Settings&) {}), {file, "`preset` gpt2-scratch"}));
  EXPECT_EQ(given([](Settings& s) { s.add_preset("gpt2-scratch"); }), "no error");
  ModelConfig model;
  model.vocab_size = 10;
  model.n_embd = 64;
  model.n_head = 2;
  complete(model);
  EXPECT_EQ(given([&](Settings& s) { s.add_model(model); }), "no error");
}

// Returns the dropout rates (all, embd, attn, resid) of a model with its own rates, after these sources are
// applied.
std::vector<double> dropouts(const std::vector<std::vector<std::pair<std::string, std::string>>>& sources) {
  ModelConfig model{.vocab_size = 10, .embd_dropout = 0.1, .attn_dropout = 0.2, .resid_dropout = 0.3};
  complete(model);
  Settings settings;
  settings.add_model(model);
  for (const auto& source : sources) {
    settings.begin_source();
    for (const auto& [key, value] : source)
      settings.add_text(key, value, key);
  }
  const ModelConfig c = settings.resolve().model;
  return {c.dropout, c.embd_dropout, c.attn_dropout, c.resid_dropout};
}

TEST(Settings, DropoutReplacesThoseOfEarlierSources) {
  using Numbers = std::vector<double>;
  EXPECT_EQ(dropouts({}), (Numbers{0.3, 0.1, 0.2, 0.3}));
  EXPECT_EQ(dropouts({{{"dropout", "0"}}}), (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(dropouts({{{"dropout_rate", "0.5"}}}), (Numbers{0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(dropouts({{{"attn_dropout", "0"}}}), (Numbers{0.3, 0.1, 0, 0.3}));
  // The order within a source does not matter.
  EXPECT_EQ(dropouts({{{"dropout", "0"}, {"attn_dropout", "0.4"}}}), (Numbers{0, 0, 0.4, 0}));
  EXPECT_EQ(dropouts({{{"attn_dropout", "0.4"}, {"dropout", "0"}}}), (Numbers{0, 0, 0.4, 0}));
  EXPECT_EQ(dropouts({{{"dropout", "0"}}, {{"attn_dropout", "0.4"}}}), (Numbers{0, 0, 0.4, 0}));
  EXPECT_EQ(dropouts({{{"attn_dropout", "0.4"}}, {{"dropout", "0.6"}}}), (Numbers{0.6, 0.6, 0.6, 0.6}));
}

TEST(Settings, DropoutOfAFileReplacesThatOfAModel) {
  const TempDir dir;
  const std::string file = dir.file("settings.json");
  write_file_atomic(file, R"({"attn_pdrop": 0.4, "dropout": 0.25})");
  Settings settings;
  ModelConfig model{.vocab_size = 10, .embd_dropout = 0.1, .attn_dropout = 0.2, .resid_dropout = 0.3};
  complete(model);
  settings.add_model(model);
  settings.add_file(file);
  const ModelConfig c = settings.resolve().model;
  EXPECT_EQ((std::vector{c.embd_dropout, c.attn_dropout, c.resid_dropout}), (std::vector{0.25, 0.4, 0.25}));
}

TEST(Settings, DropoutIsNotNegative) {
  for (const char* key : {"dropout", "embd_dropout", "attn_dropout", "resid_dropout"})
    EXPECT_ERROR(dropouts({{{key, "-0.5"}}}), ErrorCode::invalid_argument) << key;
}

// With fast reduction, any number of ranks that divides the batch size can share a run.
TEST(Settings, ProcessesDivideShardsOrWithFastReduceTheBatch) {
  const auto shared = [](Reduce reduce, int processes) {
    TrainConfig c{.batch_size = 12, .micro_batch = 4, .grad_shards = 4, .reduce = reduce};
    complete(c);
    share_among(c, processes);
    return std::pair(shard_count(c, processes), c.micro_batch);
  };
  EXPECT_EQ(shared(Reduce::exact, 2), std::pair(int64_t{4}, int64_t{1}));
  EXPECT_EQ(shared(Reduce::fast, 3), std::pair(int64_t{3}, int64_t{4}));
  EXPECT_EQ(shared(Reduce::fast_bf16, 6), std::pair(int64_t{6}, int64_t{2}));
  EXPECT_TRUE(names(error_of([&] { shared(Reduce::exact, 3); }), {"grad_shards", 3, 4}));
  EXPECT_TRUE(names(error_of([&] { shared(Reduce::fast, 5); }), {"batch_size", 5, 12}));
}

}  // namespace
}  // namespace gpt::test
