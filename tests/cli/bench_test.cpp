// Tests the command line of gpt bench. The tests never check measured values, because no test may depend on
// timing.

#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "gpt_process.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using nlohmann::json;

// Adds flags for a small memory measurement on one thread.
std::vector<std::string> bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  arguments.insert(arguments.end(), {"--bytes", "1048576", "--threads", "1"});
  return arguments;
}

std::vector<std::string> small(std::vector<std::string> arguments) {
  arguments.insert(
      arguments.end(),
      {"--vocab-size", "64", "--n-layer", "1", "--n-head",    "2", "--n-embd", "16", "--n-ctx",  "16",
       "--batch-size", "2",  "--rows",    "8", "--sequences", "3", "--tokens", "4",  "--repeat", "2"});
  return bench(arguments);
}

TEST(Bench, LimitsAlone) {
  const GptRun run = run_gpt(bench({"--json"}));
  ASSERT_EQ(run.status, 0) << run.err;
  const json report = json::parse(run.out);
  EXPECT_EQ(report["machine"]["threads"], 1);
  ASSERT_EQ(report["limits"].size(), 1u);
  EXPECT_GT(report["limits"][0]["fp32_flops"], 0.0);
  EXPECT_GT(report["limits"][0]["memory_bytes"], 0.0);
  EXPECT_FALSE(report.contains("workloads"));
  EXPECT_FALSE(names(run.err, {"gpt bench tiny"})) << "machines need no advice";
  EXPECT_TRUE(names(run_gpt(bench({})).err, {"gpt bench tiny"}));
}

TEST(Bench, EveryModeAsJson) {
  const GptRun run = run_gpt(small({"--json"}));
  ASSERT_EQ(run.status, 0) << run.err;
  const json report = json::parse(run.out);
  EXPECT_EQ(report["model"]["config"]["n_embd"], 16);
  EXPECT_EQ(report["limits"].size(), 5u);
  const std::vector<std::pair<std::string, int>> expected = {
      {"train", 32}, {"prefill", 8}, {"decode", 4}, {"batch", 12}};
  ASSERT_EQ(report["workloads"].size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const json& w = report["workloads"][i];
    EXPECT_EQ(w["mode"], expected[i].first);
    EXPECT_EQ(w["tokens"], expected[i].second);
    EXPECT_EQ(w["dtype"], "fp32");
    EXPECT_EQ(w["seconds"].size(), 2u);
    EXPECT_GT(w["tokens_per_second"]["median"], 0.0);
    EXPECT_GT(w["share_of_rate"], 0.0);
    EXPECT_EQ(w.contains("share_of_memory"), i >= 2);
    EXPECT_GT(w["memory_bytes"]["predicted"], 0);
    EXPECT_GT(w["limits"]["after"]["fp32_flops"], 0.0);
    double share = w["outside_of_ops"]["share"];
    for (const json& op : w["ops"])
      share += op["share"].get<double>();
    EXPECT_NEAR(share, 1, 1e-6);
  }
}

TEST(Bench, TablesForPeople) {
  const GptRun run = run_gpt(small({"--mode", "train,decode", "--mode", "prefill"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.out, {"fp32", "bf16", "int8", 4592, "train fp32, 2 x 16", "decode fp32, 4",
                              "prefill fp32, 8", "linear_backward_weight", "attention_forward"}));
  EXPECT_FALSE(names(run.out, {"batch"}));
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
}

TEST(Bench, EveryType) {
  const GptRun run = run_gpt(small({"--mode", "decode", "--dtype", "fp32,bf16,fp16,q8_0,q4_0", "--json"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["workloads"].size(), 5u);
  const GptRun training = run_gpt(small({"--mode", "train", "--dtype", "bf16,fp16", "--json"}));
  ASSERT_EQ(training.status, 0) << training.err;
  EXPECT_EQ(json::parse(training.out)["workloads"][1]["dtype"], "fp16");
  for (const char* cache : {"bf16", "int8", "q4_0"}) {
    const GptRun cached =
        run_gpt(small({"--mode", "batch", "--head-dim", "32", "--kv-dtype", cache, "--json"}));
    ASSERT_EQ(cached.status, 0) << cached.err;
    EXPECT_EQ(json::parse(cached.out)["workloads"][0]["kv_dtype"], cache);
  }
  const GptRun quantised = run_gpt(small({"--dtype", "q4_0", "--json"}));
  ASSERT_EQ(quantised.status, 0) << quantised.err;
  EXPECT_EQ(json::parse(quantised.out)["workloads"].size(), 3u);
}

// The counts only cover the work for tokens after the cached ones.
TEST(Bench, BehindCachedTokens) {
  for (const char* mode : {"prefill", "decode", "batch"}) {
    const auto workload_of = [&](const char* depth, const char* tokens) {
      const GptRun run = run_gpt(bench({"mini-gpt", "--mode", mode, "--depth", depth, "--rows", tokens,
                                        "--sequences", "2", "--tokens", tokens, "--repeat", "1", "--json"}));
      EXPECT_EQ(run.status, 0) << run.err;
      return json::parse(run.out)["workloads"][0];
    };
    const json all = workload_of("0", "7"), first = workload_of("0", "3"), rest = workload_of("3", "4");
    EXPECT_EQ(rest["shape"]["depth"], 3);
    EXPECT_EQ(rest["tokens"].get<int>() + first["tokens"].get<int>(), all["tokens"].get<int>());
    if (std::string_view(mode) == "prefill") continue;  // prefill computes only the logits of the last token
    const auto sum = [](const json& w, const char* key) {
      return w[key].get<double>() * w["tokens"].get<double>();
    };
    EXPECT_NEAR(sum(all, "flops_per_token"), sum(first, "flops_per_token") + sum(rest, "flops_per_token"), 1);
  }
}

// If --mode is missing, other flags determine the modes.
TEST(Bench, FlagsChooseModes) {
  const auto modes_of = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"tiny", "--n-layer", "1", "--repeat", "1", "--json"});
    const GptRun run = run_gpt(bench(flags));
    EXPECT_EQ(run.status, 0) << run.err;
    std::vector<std::string> modes;
    const json report = json::parse(run.out);
    for (const json& w : report["workloads"])
      modes.push_back(w["mode"]);
    return modes;
  };
  using Modes = std::vector<std::string>;
  EXPECT_EQ(modes_of({"-p", "8", "-n", "4"}), (Modes{"prefill", "decode"}));
  EXPECT_EQ(modes_of({"--sequences", "2", "--mode", "decode"}), Modes{"decode"});
  EXPECT_EQ(modes_of({"--batch-size", "2"}), Modes{"train"});
  EXPECT_EQ(modes_of({"--sequences", "2"}), Modes{"batch"});
}

// Inference uses the quantized weights of the file and reports this, even if the same run benchmarks
// training, which dequantizes the weights.
TEST(Bench, BlocksOfAFile) {
  const gpt::test::TempDir dir;
  const std::string run = dir.file("run"), file = dir.file("blocks.gguf");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"train",    "tales:20000", "--preset",    "llama-small", "--n-layer",    "1",  "--n-embd", "32",
            "--n-head", "2",           "--n-kv-head", "1",           "--head-dim",   "16", "--d-ff",   "32",
            "--n-ctx",  "32",          "--steps",     "1",           "--batch-size", "1",  "--out",    run},
           {"convert", run, file, "--quant", "q8_0"}}) {
    const GptRun made = run_gpt(command);
    ASSERT_EQ(made.status, 0) << made.err;
  }
  EXPECT_TRUE(names(run_gpt({"info", file}).out, {"q8_0"}));
  const GptRun all = run_gpt(bench({file, "--repeat", "1", "--json"}));
  ASSERT_EQ(all.status, 0) << all.err;
  const json report = json::parse(all.out);
  EXPECT_EQ(report["model"]["blocks"], "q8_0");
  ASSERT_EQ(report["workloads"].size(), 3u) << "not trained unasked";
  EXPECT_EQ(report["workloads"][0]["blocks"], "q8_0");

  const GptRun both = run_gpt(bench({file, "--mode", "decode,train,prefill", "--dtype", "bf16", "--n-ctx",
                                     "4", "--tokens", "2", "--repeat", "1"}));
  ASSERT_EQ(both.status, 0) << both.err;
  EXPECT_TRUE(names(both.out, {"decode q8_0 x bf16, 2", "prefill q8_0 x bf16", "train bf16"}));
}

TEST(Bench, ModelOnDisk) {
  const std::string model = GPT_SOURCE_DIR "/tests/golden/data/gpt2";
  const GptRun run = run_gpt(bench({model, "--mode", "decode", "--tokens", "4", "--repeat", "1", "--json"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["model"]["random_weights"], false);
  const GptRun reshaped = run_gpt(bench({model, "--n-embd", "8"}));
  EXPECT_EQ(reshaped.status, 2);
  EXPECT_TRUE(names(reshaped.err, {"--n-embd", model}));
}

TEST(Bench, TypesAsOthersCallThem) {
  const GptRun run =
      run_gpt(small({"--mode", "decode", "--dtype", "F16,bfloat16", "--kv-dtype", "f16", "--json"}));
  ASSERT_EQ(run.status, 0) << run.err;
  const json workloads = json::parse(run.out)["workloads"];
  EXPECT_EQ(workloads[0]["dtype"], "fp16");
  EXPECT_EQ(workloads[1]["dtype"], "bf16");
  EXPECT_EQ(workloads[1]["kv_dtype"], "fp16");
}

// The first workload finishes immediately, the second takes seconds.
TEST(Bench, AnInterruptShowsTheFinishedWorkloads) {
  GptProcess run(bench({"tiny", "--mode", "prefill,train", "--rows", "1", "--repeat", "3000"}));
  ASSERT_TRUE(run.wait_for_note("train fp32")) << run.notes();
  run.send(SIGINT);
  EXPECT_EQ(run.end(), 130);
  const std::string notes = run.notes();
  EXPECT_TRUE(names(notes.substr(notes.rfind('\n', notes.size() - 2)), {1, 2})) << "of the workloads";
}

TEST(Bench, WrongValuesAreNamedBeforeAnythingIsMeasured) {
  const std::string gpt2 = GPT_SOURCE_DIR "/tests/golden/data/gpt2";
  const std::vector<std::pair<std::vector<std::string>, Facts>> cases = {
      {{"mini-gpt", "--mode", "trian"}, {"--mode", "\"trian\""}},
      {{"mini-gtp"}, {"\"mini-gtp\"", "gpt info"}},
      {{"mini-gpt", "--dtype", "fp31"}, {"--dtype", "\"fp31\""}},
      {{"mini-gpt", "--mode", "train", "--dtype", "q8_0"}, {"--mode train", "--dtype", "q8_0"}},
      {{"mini-gpt", "--kv-dtype", "int9"}, {"--kv-dtype", "\"int9\""}},
      {{"mini-gpt", "--kv-dtype", "q8_0"}, {"--kv-dtype", "q8_0", "int8"}},
      {{"mini-gpt", "--head-dim", "48", "--kv-dtype", "q4_0"}, {"q4_0", "head_dim", 32, 48, "int8"}},
      {{gpt2, "--n-ctx", "100000"}, {"--n-ctx", 1, 25, 100000}},
      {{"--mode", "decode"}, {"--mode", "gpt bench MODEL --mode"}},
      {{"--rows", "5"}, {"--rows", "gpt bench MODEL --rows"}},
      {{"mini-gpt", "--repeat", "0"}, {"--repeat", 1, 1000000, 0}},
      {{"mini-gpt", "--mode", "prefill", "--rows", "300"}, {"--rows", 1, 256, 300}},
      {{"mini-gpt", "--mode", "decode", "--tokens", "257"}, {"--tokens", 1, 256, 257}},
      {{"mini-gpt", "--sequences", "0"}, {"--sequences", 1, 4096, 0}},
      {{"mini-gpt", "--mode", "decode", "--depth", "256"}, {"--depth", 0, 255, 256}},
      {{"mini-gpt", "--mode", "decode", "--depth", "200", "--tokens", "57"}, {"--tokens", 1, 56, 57}},
  };
  for (const auto& [arguments, facts] : cases) {
    std::vector<std::string> all = arguments;
    all.insert(all.begin(), "bench");
    const GptRun run = run_gpt(all);
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_TRUE(names(run.err, facts));
    EXPECT_EQ(run.out, "");
  }
  EXPECT_TRUE(suggests(run_gpt({"bench", "mini-gpt", "--mode", "trian"}).err, "trian", "train"));
  EXPECT_TRUE(suggests(run_gpt({"bench", "mini-gtp"}).err, "mini-gtp", "mini-gpt"));
  EXPECT_TRUE(suggests(run_gpt({"bench", "mini-gpt", "--dtype", "fp31"}).err, "fp31", "fp32"));
  EXPECT_TRUE(suggests(run_gpt({"bench", "mini-gpt", "--kv-dtype", "int9"}).err, "int9", "int8"));
}

}  // namespace
