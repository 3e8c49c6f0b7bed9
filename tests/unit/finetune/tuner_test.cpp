// Compares fine-tuning on a device, which reads the results of a step one step later, with runs on the CPU.

#include "finetune/tuner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "model/model_source.h"
#include "report/metrics.h"
#include "run/trainer.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"
#include "support/toy_device.h"

namespace gpt::test {
namespace {

using nlohmann::json;

class TunerTest : public testing::Test {
 protected:
  void SetUp() override {
    Settings settings;
    settings.add_json(json::parse(R"({"data": ["tales:20000"], "n_layer": 1, "n_head": 2, "n_embd": 16,
      "n_ctx": 32, "steps": 1, "warmup": 0, "batch_size": 2, "eval_every": 0, "sample_every": 0, "threads": 1})"),
                      "test");
    settings.add_json({{"tokenizer", GPT_SOURCE_DIR "/tests/data/chat.tokenizer.json"}}, "test");
    TrainRequest base;
    base.config = settings.resolve();
    base.out = folder("base");
    base.brief = base.silent = true;
    run_training(base, {});
    std::string chat;
    for (int i = 0; i < 12; ++i) {
      const std::string name(1, static_cast<char>('a' + i % 4));
      chat +=
          json{{"messages",
                {{{"role", "user"}, {"content", name}}, {{"role", "assistant"}, {"content", name + name}}}}}
              .dump() +
          "\n";
    }
    write_file_atomic(dir_.file("chat.jsonl"), chat);
  }

  std::string folder(const std::string& name) {
    std::filesystem::create_directories(dir_.file(name));
    return dir_.file(name);
  }
  TuneRequest request(const std::string& out, double lr) {
    TuneRequest request;
    TuneConfig& config = request.config;
    config.task = "chat";
    config.epochs = 10;
    config.model = dir_.file("base/last");
    config.chat_template = "chatml";
    Settings settings;
    settings.add_model(config_of_model(config.model));
    settings.add_defaults(tuning_defaults("chat"));
    settings.add_json({{"data", {dir_.file("chat.jsonl")}},
                       {"batch_size", 2},
                       {"micro_batch", 1},
                       {"steps", 6},
                       {"lr", lr},
                       {"schedule", "constant"},
                       {"log_every", 1},
                       {"eval_every", 3},
                       {"ema", 0.9},
                       {"dropout", 0.1},
                       {"threads", 1}},
                      "test");
    config.run = settings.resolve();
    request.steps_given = request.eval_given = request.batch_given = request.micro_given = true;
    request.out = folder(out);
    request.silent = true;
    return request;
  }
  void on_toy(TuneRequest& request) {
    request.kernels = &kernels_;
    request.device = toy_;
  }
  // Returns the metrics of a run without times.
  std::vector<MetricRecord> metrics(const std::string& run) {
    std::vector<MetricRecord> records = read_metrics(dir_.file(run + "/metrics.jsonl"));
    for (MetricRecord& record : records)
      std::erase_if(record, [](const auto& x) { return x.first == "tok_per_s" || x.first == "seconds"; });
    return records;
  }
  void expect_equal(const std::string& a, const std::string& b, const std::vector<std::string>& files) {
    for (const std::string& file : files)
      EXPECT_TRUE(read_file(dir_.file(a + file)) == read_file(dir_.file(b + file))) << file;
    EXPECT_EQ(metrics(a), metrics(b));
  }

  TempDir dir_;
  std::shared_ptr<ToyDevice> toy_ = std::make_shared<ToyDevice>();
  const ToyKernels kernels_{*toy_, kernel_table(best_isa())};
};

TEST_F(TunerTest, ADeviceGivesTheBitsOfTheCpu) {
  run_tuning(request("cpu", 1e-2), {});
  TuneRequest first = request("toy", 1e-2);
  on_toy(first);
  int64_t asked = 0;
  EXPECT_TRUE(run_tuning(first, [&] { return ++asked > 2; }).interrupted) << "in the middle of the queue";
  TuneRequest rest = request("toy", 1e-2);
  on_toy(rest);
  rest.resume = true;
  EXPECT_TRUE(run_tuning(rest, {}).finished);
  expect_equal("cpu", "toy",
               {"/last/model.safetensors", "/last/train_state.safetensors", "/best/model.safetensors",
                "/best/chat_template.jinja"});
}

// The checkpoint saved before the error is from the previous step, regardless of the steps that the device
// has started.
TEST_F(TunerTest, AHaltedStepOnADeviceLeavesWhatItLeavesOnTheCpu) {
  std::string messages[2];
  for (const bool toy : {false, true}) {
    TuneRequest bad = request(toy ? "toy" : "cpu", 1e3);
    if (toy) on_toy(bad);
    messages[toy] = error_of([&] { run_tuning(bad, {}); });
    EXPECT_TRUE(names(messages[toy], {bad.out + "/last"})) << messages[toy];
    messages[toy].erase(messages[toy].find(bad.out), bad.out.size());
  }
  EXPECT_EQ(messages[0], messages[1]);
  expect_equal("cpu", "toy", {"/last/model.safetensors", "/last/train_state.safetensors"});
}

}  // namespace
}  // namespace gpt::test
