// Tests the command line of gpt train: sources of settings, resuming and interruption.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <tuple>

#include "gpt_process.h"
#include "http_client.h"
#include "run_gpt.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class TrainCommand : public testing::Test {
 protected:
  TrainCommand() : folder_(fs::path(testing::TempDir()) / ("train" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
  }
  ~TrainCommand() override { fs::remove_all(folder_); }

  std::string run_folder() const { return (folder_ / "run").string(); }
  std::vector<std::string> small(int64_t steps) const {
    return {"train",
            "--data",
            "tales:20000",
            "--n-layer",
            "1",
            "--n-head",
            "2",
            "--n-embd",
            "16",
            "--n-ctx",
            "16",
            "--batch-size",
            "2",
            "--eval-every",
            "0",
            "--threads",
            "1",
            "--steps",
            std::to_string(steps),
            "--out",
            run_folder()};
  }
  static std::string bytes_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  fs::path folder_;
};

json config(const std::vector<std::string>& flags, const std::vector<std::string>& environment = {}) {
  std::vector<std::string> arguments = {"train", "--print-config"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const GptRun run = run_gpt(arguments, environment);
  EXPECT_EQ(run.status, 0) << run.err;
  return run.status == 0 ? json::parse(run.out) : json::object();
}

TEST_F(TrainCommand, FlagsWinOverEnvironmentOverFileOverPreset) {
  fs::create_directories(folder_);
  const std::string file = (folder_ / "config.json").string();
  std::ofstream(file) << R"({"lr": 0.02, "warmup": 7, "beta1": 0.5})";
  const json c =
      config({"--preset", "mini-gpt", "--config", file, "--lr", "0.04"}, {"GPT_LR=0.03", "GPT_WARMUP=8"});
  EXPECT_EQ(c["lr"], 0.04);
  EXPECT_EQ(c["warmup"], 8);
  EXPECT_EQ(c["beta1"], 0.5);
  EXPECT_EQ(c["n_layer"], 6);
}

// The original project evaluates the training and the validation text with 50 batches each.
TEST_F(TrainCommand, PresetsOfSeedsKeepTheirEvaluation) {
  const json c = config({"--preset", "mini-gpt"});
  EXPECT_EQ(c["eval_every"], 100);
  EXPECT_EQ(c["eval_batches"], 50);
  EXPECT_EQ(c["eval_train"], true);
  EXPECT_EQ(config({"--steps", "5000"})["eval_train"], false);
  EXPECT_EQ(config({"--steps", "5000"})["eval_every"], 250);
}

TEST_F(TrainCommand, ShapesOfFlags) {
  const json c =
      config({"--data", "a", "b", "--qk-norm", "--qkv-bias", "false", "--out-bias=false", "--norm", "rms"});
  EXPECT_EQ(c["data"], json({"a", "b"}));
  EXPECT_EQ(c["qk_norm"], true);
  EXPECT_EQ(c["qkv_bias"], false);
  EXPECT_EQ(c["out_bias"], false);
  EXPECT_EQ(c["norm"], "rms");
}

TEST_F(TrainCommand, TakesTheTokenizerOfAGgufFile) {
  const auto train = [&](const std::string& tokenizer) {
    std::vector<std::string> arguments = small(1);
    arguments.insert(arguments.end(), {"--preset", "llama-small", "--n-kv-head", "1", "--warmup", "0",
                                       "--tokenizer", tokenizer});
    const GptRun run = run_gpt(arguments);
    EXPECT_EQ(run.status, 0) << run.err;
    return json::parse(bytes_of(folder_ / "run/last/tokenizer.json"))["model"]["vocab"];
  };
  const json first = train(std::string(GPT_SOURCE_DIR) + "/tests/data/bpe.tokenizer.json");
  const std::string gguf = (folder_ / "model.gguf").string();
  const GptRun convert = run_gpt({"convert", run_folder(), gguf});
  ASSERT_EQ(convert.status, 0) << convert.err;
  fs::remove_all(run_folder());
  EXPECT_EQ(train(gguf), first);
}

// Flags that contradict the shape of the initial model are refused by name.
TEST_F(TrainCommand, StartsFromAModelOfTheShapeAskedFor) {
  std::vector<std::string> made = small(1);
  made.insert(made.end(), {"--warmup", "0"});
  ASSERT_EQ(run_gpt(made).status, 0);
  const std::string out = (folder_ / "more").string(), file = (folder_ / "keys.json").string();
  std::ofstream(file) << R"({"n_ctx": 8})";
  const auto from = [&](std::vector<std::string> more, const std::vector<std::string>& environment = {}) {
    std::vector<std::string> words = {"train",   "--init-from", run_folder(), "--data", "tales:20000",
                                      "--steps", "1",           "--warmup",   "0",      "--eval-every",
                                      "0",       "--out",       out};
    words.insert(words.end(), more.begin(), more.end());
    fs::remove_all(out);
    return run_gpt(words, environment);
  };
  const std::string tokenizer = std::string(GPT_SOURCE_DIR) + "/tests/data/bpe.tokenizer.json";
  const std::vector<std::tuple<std::vector<std::string>, std::vector<std::string>, Facts>> refused = {
      {{"--n-layer", "9"}, {}, {"--n-layer", "--init-from", 1, 9}},
      {{"--n-layer", "9", "--print-config"}, {}, {"--n-layer", "--init-from", 1, 9}},
      {{}, {"GPT_N_HEAD=4"}, {"GPT_N_HEAD", "--init-from", 2, 4}},
      {{"--config", file}, {}, {"\"n_ctx\"", "--init-from", 16, 8}},
      {{"--tokenizer", tokenizer}, {}, {"--tokenizer", tokenizer, "--init-from", "byte", 256}},
      {{}, {"GPT_TOKENIZER=char"}, {"GPT_TOKENIZER", "--init-from", "byte", 256}}};
  for (const auto& [more, environment, facts] : refused) {
    const GptRun run = from(more, environment);
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_TRUE(names(run.err, facts));
  }
  const GptRun plan =
      run_gpt({"plan", "--init-from", run_folder(), "--data", "tales:20000", "--n-layer", "9"});
  EXPECT_EQ(plan.status, 2);
  EXPECT_TRUE(names(plan.err, {"--n-layer", "--init-from", 1, 9}));
  // Accepts flags that match the model, dropout, and a preset. The shape of the model takes precedence over
  // the preset.
  const GptRun run =
      from({"--n-layer", "1", "--tokenizer", "byte", "--dropout", "0.1", "--preset", "mini-gpt"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.err, {"note:", "mini-gpt", run_folder()})) << "its shape is not taken";
}

TEST_F(TrainCommand, FlagsWithoutEffectAreNoted) {
  const auto notes = [&](const std::vector<std::string>& more) {
    fs::remove_all(run_folder());
    const GptRun run = run_gpt(with_flags(small(1), more));
    EXPECT_EQ(run.status, 0) << run.err;
    return run.err;
  };
  for (const auto& [flag, value] : {std::pair{"--muon-lr", "0.1"}, {"--rope-theta", "77"}})
    EXPECT_TRUE(names(notes({flag, value}), {"note:", flag}));
  EXPECT_FALSE(names(notes({"--muon-lr", "0.1", "--optimizer", "muon"}), {"--muon-lr"}));
  EXPECT_FALSE(names(notes({"--rope-theta", "77", "--position", "rope"}), {"--rope-theta"}));
}

TEST_F(TrainCommand, StopsAndResumesToTheSameWeights) {
  std::vector<std::string> stopped = small(8);
  stopped.insert(stopped.end(), {"--stop-after", "3"});
  EXPECT_EQ(run_gpt(stopped).status, 0);
  EXPECT_EQ(run_gpt({"train", "--out", run_folder(), "--resume", "--lr", "1"}).status, 2);
  EXPECT_EQ(run_gpt({"train", "--out", run_folder(), "--resume", "--preset", "tiny"}).status, 2);
  const GptRun resumed = run_gpt({"train", "--out", run_folder(), "--resume", "--threads", "2"},
                                 {"GPT_LR=1", "GPT_PRESET=gpt2"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_TRUE(names(resumed.err, {"GPT_LR=1", "GPT_PRESET=gpt2"})) << "which are not used";
  const std::string weights = bytes_of(folder_ / "run/last/model.safetensors");
  fs::remove_all(run_folder());
  EXPECT_EQ(run_gpt(small(8)).status, 0);
  EXPECT_EQ(bytes_of(folder_ / "run/last/model.safetensors"), weights);
  EXPECT_FALSE(weights.empty());
}

// Norms by part are norms of the unscaled gradients, and together they give the norm of the step. The loss
// scale of fp16 is divided out. Sums of 1024 squares in fp32 have an error of up to 1024 roundings of 2^-24.
TEST_F(TrainCommand, NormsByPartMakeUpTheNormOfTheStep) {
  for (const std::string dtype : {"fp32", "fp16"}) {
    fs::remove_all(folder_);
    const GptRun run = run_gpt(with_flags(small(4), {"--eval-every", "2", "--eval-batches", "1",
                                                     "--log-every", "1", "--warmup", "0", "--dtype", dtype}));
    ASSERT_EQ(run.status, 0) << run.err;
    std::map<int, double> whole, parts;
    std::ifstream metrics(run_folder() + "/metrics.jsonl");
    for (std::string line; std::getline(metrics, line);) {
      const json record = json::parse(line);
      const int step = record["step"].get<int>();
      for (const auto& [key, value] : record.items()) {
        if (key == "grad_norm") whole[step] = value.get<double>();
        if (key.starts_with("grad_norm/")) parts[step] += std::pow(value.get<double>(), 2);
        if (key == "loss_scale") {
          EXPECT_GT(value.get<double>(), 1000) << "nothing to take out";
        }
      }
    }
    EXPECT_EQ(parts.size(), 2u) << dtype;
    for (const auto& [step, squares] : parts)
      EXPECT_NEAR(std::sqrt(squares) / whole[step], 1, 1024 * 0x1p-24) << dtype << " step " << step;
  }
}

TEST_F(TrainCommand, InterruptSavesAndGives130) {
  EXPECT_EQ(run_gpt(small(100), {"GPT_FAULT_POINT=train.step:2=INT"}).status, 130);
  const GptRun generated = run_gpt({"generate", run_folder(), "--prompt", "A", "--max-tokens", "2"});
  EXPECT_EQ(generated.status, 0) << generated.err;
}

TEST_F(TrainCommand, ServesAPageOfItsRun) {
  std::vector<std::string> arguments = small(1000000);
  arguments.insert(arguments.end(), {"--serve", "0"});
  GptProcess process(arguments);
  const std::string mark = "http://127.0.0.1:";
  ASSERT_TRUE(process.wait_for_note("/training\n")) << process.notes();
  const int port = std::stoi(process.notes().substr(process.notes().find(mark) + mark.size()));
  const auto ask = [&](const std::string& target) { return HttpClient(port).ask("GET", target); };
  EXPECT_EQ(ask("/training").status, 200);
  EXPECT_TRUE(process.wait_until([&] {
    const json run = json::parse(ask("/training/runs").body)["runs"][0];
    return run["name"] == "run" && run["step"] > 0 && run["steps"] == 1000000;
  }));
  EXPECT_EQ(json::parse(ask("/v1/models").body)["data"].size(), 0u);

  // A second run cannot use the same port, and reports this before it trains.
  const GptRun second = run_gpt({"train", "--data", "tales:20000", "--steps", "1", "--out",
                                 (folder_ / "second").string(), "--serve", std::to_string(port)});
  EXPECT_EQ(second.status, 1);
  EXPECT_TRUE(names(second.err, {"127.0.0.1:" + std::to_string(port)}));
  process.send(SIGINT);
  EXPECT_EQ(process.end(), 130) << process.notes();
}

}  // namespace
