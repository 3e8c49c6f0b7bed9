// Tests all commands with a model without layers, which is head(embedding).

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using gpt::test::TempDir;
using nlohmann::json;

GptRun good(const std::vector<std::string>& arguments) {
  const GptRun run = run_gpt(arguments);
  EXPECT_EQ(run.status, 0) << arguments.front() << ": " << run.err << run.out;
  return run;
}

std::vector<std::string> training(const std::string& out, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"train",
                                  "--preset",
                                  "gpt2-scratch",
                                  "--n-layer",
                                  "0",
                                  "--final-norm",
                                  "false",
                                  "--data",
                                  "tales:20000",
                                  "--n-embd",
                                  "16",
                                  "--n-head",
                                  "2",
                                  "--n-ctx",
                                  "16",
                                  "--steps",
                                  "6",
                                  "--batch-size",
                                  "4",
                                  "--lr",
                                  "0.01",
                                  "--warmup",
                                  "0",
                                  "--eval-every",
                                  "3",
                                  "--eval-batches",
                                  "2",
                                  "--sample-every",
                                  "3",
                                  "--threads",
                                  "1",
                                  "--out",
                                  out};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Placeholder, TrainsStopsResumesAndAnswers) {
  const TempDir dir;
  const std::string run = dir.file("run"), parts = dir.file("parts");
  good(training(run, {}));
  good(training(parts, {"--stop-after", "3", "--recompute"}));
  good({"train", "--out", parts, "--resume"});
  EXPECT_EQ(json::parse(good({"info", run, "--json"}).out).at("parameters").at("total"),
            256 * 16 * 2 + 16 * 16);
  const auto generated = [](const std::string& model, const char* dtype) {
    return good({"generate", model, "--ids", "72,97,110", "--greedy", "--max-tokens", "8", "--dtype", dtype})
        .out;
  };
  EXPECT_EQ(generated(run, "fp32"), generated(parts, "fp32")) << "resuming and recomputing change nothing";
  EXPECT_NE(generated(run, "bf16"), "");
  good({"generate", run, "--ids", "72,97", "--beams", "3", "--max-tokens", "4"});
  const json loss = json::parse(good({"eval", run, "--data", "tales:3000", "--json"}).out);
  EXPECT_LT(loss.at("loss").get<double>(), 6);
}

TEST(Placeholder, IsShown) {
  const TempDir dir;
  const std::string run = dir.file("run");
  good(training(run, {"--stop-after", "1"}));
  const GptRun text = good({"trace", run, "--prompt", "Hana"});
  EXPECT_TRUE(names(text.out, {"0 blocks"}));
  EXPECT_EQ(text.out.find("nan"), std::string::npos) << text.out;
  good({"trace", run, "--prompt", "Hana", "--block", "all", "--json"});
  good({"trace", run, "--prompt", "Hana", "--html", dir.file("page.html")});
  good({"trace", run, "--prompt", "Hana", "--figure", "residual", "--svg", dir.file("stream.svg")});
  good({"trace", run, "--figure", "architecture", "--svg", dir.file("model.svg")});
  EXPECT_EQ(run_gpt({"trace", run, "--prompt", "Hana", "--svg", dir.file("a.svg")}).status, 2)
      << "no attention";
  EXPECT_EQ(run_gpt({"trace", run, "--prompt", "Hana", "--block", "1"}).status, 2);
  const GptRun info = good({"info", run});
  EXPECT_EQ(info.out.find("nan"), std::string::npos) << info.out;
  EXPECT_FALSE(names(info.out, {"inf"}));
  good({"info", run, "--summary"});
  good({"info", run, "--compare", ":n_layer=1"});
  good({"plan", "--preset", "gpt2-scratch", "--n-layer", "0", "--data", "tales:20000", "--n-embd", "16",
        "--n-head", "2", "--n-ctx", "16", "--steps", "2"});
  good({"report", run});
}

TEST(Placeholder, IsConvertedWhereTheFormatCan) {
  const TempDir dir;
  const std::string run = dir.file("run");
  good(training(run, {"--stop-after", "1"}));
  const auto ids = [](const std::string& model) {
    return good({"generate", model, "--ids", "72,97,110", "--greedy", "--max-tokens", "8"}).out;
  };
  good({"convert", run, dir.file("hf")});
  EXPECT_EQ(ids(dir.file("hf")), ids(run));
  for (const char* format : {"gguf", "llmc", "llama2c"}) {
    const std::string out = dir.file(std::string(format) == "gguf" ? "m.gguf" : "m.bin");
    const GptRun refused = run_gpt({"convert", run, out, "--to", format});
    EXPECT_EQ(refused.status, 1) << format << refused.out;
    EXPECT_TRUE(names(refused.err, {"n_layer", 1, 0, "--n-layer 1"})) << format;
  }
}

}  // namespace
