// Tests the defaults of gpt finetune: without flags for the number of steps and the learning rate, both
// depend on the model and the examples.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

class FinetuneDefaults : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<gpt::test::TempDir>();
    GptRun run = run_gpt({"data", "tales", "--bytes", "60000", "--out", file("tales.txt")});
    ASSERT_EQ(run.status, 0) << run.err;
    run =
        run_gpt({"tokenizer", "train", file("tales.txt"), "--vocab-size", "280", "--out", file("tokenizer")});
    ASSERT_EQ(run.status, 0) << run.err;
    run = run_gpt({"train",        file("tales.txt"),
                   "--tokenizer",  file("tokenizer"),
                   "--n-layer",    "1",
                   "--n-head",     "2",
                   "--n-embd",     "48",
                   "--n-ctx",      "64",
                   "--steps",      "60",
                   "--warmup",     "5",
                   "--lr",         "3e-3",
                   "--threads",    "1",
                   "--out",        file("base"),
                   "--eval-every", "0"});
    ASSERT_EQ(run.status, 0) << run.err;
    std::ofstream chat(file("chat.jsonl")), labelled(file("labelled.jsonl")), choices(file("choices.jsonl"));
    for (int i = 0; i < 120; ++i) {
      const std::string name(1, static_cast<char>('a' + i % 4));
      chat << json{{"messages",
                    {{{"role", "user"}, {"content", "Say " + name}},
                     {{"role", "assistant"}, {"content", name + name}}}}}
                  .dump()
           << "\n";
      labelled << json{{"text", i % 2 == 0 ? "The cat " + name : "a dog" + name}, {"label", i % 2}}.dump()
               << "\n";
      choices << json{{"context", "q"}, {"choices", {"a", "b" + name, "c"}}, {"label", i % 3}}.dump() << "\n";
    }
  }
  static void TearDownTestSuite() { dir_.reset(); }
  static std::string file(const std::string& name) { return dir_->file(name); }
  static json config(const std::string& out) {
    return json::parse(gpt::read_file(file(out) + "/config.json"));
  }
  static GptRun finetune(const std::string& task, const std::string& data, const std::string& out,
                         const Words& more, const Words& environment = {}) {
    Words words = {"finetune", file("base"), "--task",  task,        "--data",
                   file(data), "--out",      file(out), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_gpt(words, environment);
  }
  // Returns the last value of a metric.
  static double last(const std::string& out, const char* key) {
    std::ifstream metrics(file(out) + "/metrics.jsonl");
    double value = -1;
    for (std::string line; std::getline(metrics, line);)
      value = json::parse(line).value(key, value);
    return value;
  }
  static std::unique_ptr<gpt::test::TempDir> dir_;
};
std::unique_ptr<gpt::test::TempDir> FinetuneDefaults::dir_;

TEST_F(FinetuneDefaults, LearnFromFewExamples) {
  const GptRun chat = finetune("chat", "chat.jsonl", "chat", {"--template", "chatml"});
  ASSERT_EQ(chat.status, 0) << chat.err;
  EXPECT_LT(last("chat", "val_loss"), 1) << "5.6 before the first step";
  const GptRun labels = finetune("classify", "labelled.jsonl", "labels", {});
  ASSERT_EQ(labels.status, 0) << labels.err;
  EXPECT_EQ(last("labels", "val_accuracy"), 1);
  EXPECT_EQ(config("labels")["lr"], 1e-3) << "6.25e-5 x 768 / 48";
}

TEST_F(FinetuneDefaults, BatchesHoldWholeGroups) {
  const GptRun run = finetune("choose", "choices.jsonl", "choose", {"--epochs", "0.1"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(config("choose")["batch_size"], 3);
}

// The training part has 108 examples.
TEST_F(FinetuneDefaults, AnEpochSeesEveryExample) {
  const GptRun run = finetune("classify", "labelled.jsonl", "epoch", {"--epochs", "1", "--batch-size", "16"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(config("epoch")["steps"], 7);
}

// The user's settings are kept, whether they come from flags, from the environment or from a config file.
TEST_F(FinetuneDefaults, SettingsThatAreGivenStay) {
  std::ofstream(file("settings.json")) << R"({"batch_size": 9, "eval_every": 2})";
  const GptRun run = finetune("classify", "labelled.jsonl", "given",
                              {"--config", file("settings.json"), "--lr", "0.5"}, {"GPT_STEPS=4"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json c = config("given");
  EXPECT_EQ(c["batch_size"], 9);
  EXPECT_EQ(c["eval_every"], 2);
  EXPECT_EQ(c["lr"], 0.5);
  EXPECT_EQ(c["steps"], 4);
  const GptRun parts =
      finetune("classify", "labelled.jsonl", "micro", {"--micro-batch", "2", "--steps", "2"});
  ASSERT_EQ(parts.status, 0) << parts.err;
  EXPECT_EQ(config("micro")["micro_batch"], 2);
  EXPECT_EQ(config("micro")["batch_size"].get<int>() % 2, 0);
}

}  // namespace
