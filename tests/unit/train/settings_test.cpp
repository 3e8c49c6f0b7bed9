#include <gtest/gtest.h>

#include "base/file.h"
#include "base/problems.h"
#include "support/error_of.h"
#include "support/temp_dir.h"
#include "train/train_config.h"

namespace gpt::test {
namespace {

// The values that the error for an impossible one lists: "expected one of random, epoch, found".
std::vector<std::string> values_of(const std::string& key) {
  const std::string message = error_of([&] {
    Settings settings;
    settings.add_text(key, "no-such-value", "test");
    settings.resolve();
  });
  const std::string before = "expected one of ", after = ", found";
  const size_t at = message.find(before);
  if (at == std::string::npos) return {};
  std::string list = message.substr(at + before.size());
  list = list.substr(0, list.find(after));
  std::vector<std::string> values;
  for (size_t comma = list.find(", "); comma != std::string::npos; comma = list.find(", ")) {
    values.push_back(list.substr(0, comma));
    list.erase(0, comma + 2);
  }
  values.push_back(list);
  return values;
}

// Nobody can type what help does not name.
TEST(Settings, HelpNamesEveryValueOfAChoice) {
  int choices = 0;
  for (const KeyInfo& key : config_keys()) {
    const std::vector<std::string> values = values_of(key.name);
    choices += values.empty() ? 0 : 1;
    for (const std::string& value : values)
      EXPECT_NE(key.help.find(value), std::string::npos) << key.name << " = " << value << ": " << key.help;
  }
  EXPECT_GE(choices, 10);
}

// GPT-1's 2,000 steps of warm-up leave nothing of a short run.
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
  EXPECT_EQ(warmup("gpt1", {{"warmup", "900"}}), 900) << "it was asked for";
  EXPECT_EQ(warmup("gpt1", {{"warmup", "2000"}}), 2000);
  EXPECT_EQ(warmup("mini-gpt", {}), 100);
}

TEST(Settings, AllThatIsWrongIsReportedTogether) {
  const auto problems = [](std::initializer_list<std::pair<const char*, const char*>> keys) {
    Settings settings;
    for (const auto& [key, value] : keys)
      settings.add_text(key, value, "test");
    try {
      settings.resolve();
    } catch (const UsageErrors& several) {
      return std::ssize(several.errors());
    } catch (const UsageError&) {
      return std::ptrdiff_t{1};
    }
    return std::ptrdiff_t{0};
  };
  EXPECT_EQ(problems({{"lr", "1e-3"}}), 0);
  EXPECT_EQ(problems({{"lr", "-1"}}), 1) << "not of min_lr too, which follows it";
  EXPECT_EQ(problems({{"lr", "-1"}, {"steps", "0"}, {"dtype", "fp8"}, {"optimizer", "sgd"}, {"n_head", "7"}}),
            5);
}

// A preset, a model or a model_type must say which switches go with a foreign shape.
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
  EXPECT_NE(given([](Settings&) {}).find("--preset gpt2-scratch"), std::string::npos);
  EXPECT_EQ(given([](Settings& s) { s.add_preset("gpt2-scratch"); }), "no error");
  ModelConfig model;
  model.vocab_size = 10;
  model.n_embd = 64;
  model.n_head = 2;
  complete(model);
  EXPECT_EQ(given([&](Settings& s) { s.add_model(model); }), "no error");
}

// With a fast reduce any number of processes that divides the batch shares a run.
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
  EXPECT_NE(error_of([&] { shared(Reduce::exact, 3); }).find("a multiple of the 3 processes, found 4"),
            std::string::npos);
  EXPECT_NE(error_of([&] { shared(Reduce::fast, 5); }).find("the number of processes = 5, found 12"),
            std::string::npos);
}

}  // namespace
}  // namespace gpt::test
