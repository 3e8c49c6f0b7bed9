// Tests gpt plan, which estimates the memory and time of a training run before it starts.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using nlohmann::json;

const std::vector<std::string> kRun = {"plan", "--data",       "tales:20000", "--n-layer", "2",  "--n-head",
                                       "2",    "--n-embd",     "32",          "--n-ctx",   "32", "--steps",
                                       "100",  "--batch-size", "8",           "--json"};

GptRun plan(const std::vector<std::string>& more) {
  return run_gpt(with_flags(kRun, more));
}

TEST(Plan, CountsWithoutMeasuring) {
  const GptRun run = plan({"--measure", "0"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json p = json::parse(run.out);
  EXPECT_EQ(p["tokens"], 100 * 8 * 32);
  const auto parameters = p["parameters"].get<double>();
  EXPECT_DOUBLE_EQ(p["tokens_per_parameter"].get<double>(), 25600 / parameters);
  EXPECT_EQ(p["compute_optimal"]["tokens"].get<double>(), 20 * parameters);
  EXPECT_GE(p["compute_optimal"]["steps"].get<double>() * 256, 20 * parameters);
  EXPECT_FALSE(p.contains("time_seconds"));
  EXPECT_TRUE(p["memory_bytes"]["fits"]);
  EXPECT_GT(p["memory_bytes"]["activations"].get<int64_t>(), 0);
  EXPECT_EQ(p["optimizer"]["share_of_step"], 0);
  const GptRun muon = plan({"--measure", "0", "--optimizer", "muon"});
  ASSERT_EQ(muon.status, 0) << muon.err;
  const json q = json::parse(muon.out);
  const double update = q["optimizer"]["flops_per_step"], model = q["flops"].get<double>() / 100;
  EXPECT_GT(update, 0);
  EXPECT_NEAR(q["optimizer"]["share_of_step"].get<double>(), update / (update + model), 1e-9);
}

TEST(Plan, MeasuresPartsOfTheRun) {
  const GptRun run = plan({"--measure", "0.01", "--micro-batch", "4", "--sample-every", "50"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json time = json::parse(run.out)["time_seconds"];
  double sum = 0;
  for (const char* part : {"steps", "evaluation", "sampling", "saving", "setup"}) {
    EXPECT_GT(time[part].get<double>(), 0) << part;
    sum += time[part].get<double>();
  }
  EXPECT_NEAR(time["total"].get<double>(), sum, 1e-9 * sum);
}

// Each rank has a share of the samples and sends messages. With ZeRO it also has a share of the optimizer
// state.
TEST(Plan, SharesTheRunAmongProcesses) {
  const auto planned = [](const std::vector<std::string>& more) {
    const GptRun run = plan(more);
    EXPECT_EQ(run.status, 0) << run.err;
    return json::parse(run.out);
  };
  const json one = planned({"--measure", "0"}),
             two = planned({"--measure", "0.01", "--ranks", "2", "--link", "1"}),
             divided = planned({"--measure", "0", "--ranks", "2", "--zero", "1"}),
             rounded = planned(
                 {"--measure", "0.01", "--ranks", "2", "--grad-shards", "8", "--reduce", "fast-bf16"});
  EXPECT_FALSE(one.contains("processes"));
  EXPECT_EQ(two["config"]["grad_shards"], 2);
  EXPECT_EQ(two["config"]["micro_batch"], 4);
  EXPECT_EQ(two["processes"]["link_bytes_per_second"], 1.25e8);
  // With two ranks, each rank sends half of the gradients and half of their sums to the other rank.
  const double parameters = one["parameters"];
  EXPECT_NEAR(two["processes"]["sent_bytes_per_step"].get<double>(), 4 * parameters, 0.01 * 4 * parameters);
  EXPECT_NEAR(rounded["processes"]["sent_bytes_per_step"].get<double>(), 2 * parameters,
              0.01 * 2 * parameters);
  EXPECT_GE(two["processes"]["message_seconds_per_step"], two["processes"]["exposed_seconds_per_step"]);
  EXPECT_GT(two["memory_bytes"]["gradients"], one["memory_bytes"]["gradients"]);
  EXPECT_EQ(two["memory_bytes"]["moments"], one["memory_bytes"]["moments"]);
  EXPECT_LT(divided["memory_bytes"]["moments"], one["memory_bytes"]["moments"]);
  EXPECT_EQ(plan({"--ranks", "3"}).status, 2);  // does not divide the batch of 8
  EXPECT_EQ(plan({"--ranks", "2", "--link", "0"}).status, 2);
}

TEST(Plan, SaysWhatIsOfOneProcessAndRefusesWhatNoneNeeds) {
  const auto text_of = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = with_flags(kRun, more);
    std::erase(words, "--json");
    return run_gpt(words);
  };
  const GptRun two = text_of({"--measure", "0", "--ranks", "2"});
  EXPECT_TRUE(names(two.out, {"2 shards", 4, 8})) << "the samples of one process";
  EXPECT_TRUE(names(two.err, {"gpt launch -n 2 -- train"}));
  const GptRun large = run_gpt({"plan", "--preset", "gpt2-xl", "--data", "tales:20000", "--batch-size", "4",
                                "--measure", "0", "--memory", "1", "--ranks", "4", "--link", "5"});
  EXPECT_TRUE(names(large.err, {"--ranks 4 --link 5"}));
  const GptRun link = plan({"--link", "5"}), zero = plan({"--zero", "1"});
  EXPECT_EQ(link.status, 2);
  EXPECT_TRUE(names(link.err, {"--link", "--ranks N"}));
  EXPECT_EQ(zero.status, 2);
  EXPECT_TRUE(names(zero.err, {"--zero", "--ranks N"}));
}

// Compares an adapter for a model in a folder with training all weights of that model.
TEST(Plan, ComparesAnAdapterWithAllWeights) {
  const gpt::test::TempDir dir;
  const GptRun made =
      run_gpt({"train", "--data", "tales:20000", "--n-layer", "2", "--n-embd", "64", "--n-head", "2",
               "--n-ctx", "32", "--batch-size", "8", "--steps", "1", "--out", dir.file("run")});
  ASSERT_EQ(made.status, 0) << made.err;
  const std::vector<std::string> base = {
      "plan",         "--init-from", dir.file("run"), "--data", "tales:20000",
      "--batch-size", "8",           "--steps",       "100",    "--measure"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return run_gpt(more);
  };
  const std::string talk = dir.file("talk.jsonl");
  gpt::test::write_plain_file(talk, R"({"messages":[{"role":"user","content":"a"}]})");
  const GptRun talks = run_gpt({"plan", "--init-from", dir.file("run"), "--data", talk});
  EXPECT_EQ(talks.status, 1);
  EXPECT_TRUE(names(talks.err, {talk + ":1", "gpt finetune --task chat"}));
  const GptRun run = with({"0.01", "--lora-rank", "4", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json p = json::parse(run.out), adapter = p["adapter"];
  EXPECT_EQ(p["config"]["tokenizer"], dir.file("run/best")) << "that of the model";
  EXPECT_EQ(adapter["rank"], 4);
  // A [4,in] and B [out,4] for the four matrices of a GPT-2 layer.
  EXPECT_EQ(adapter["parameters"], 2 * 4 * ((64 + 192) + (64 + 64) + (64 + 256) + (256 + 64)));
  EXPECT_GT(adapter["step_seconds"].get<double>(), 0);
  for (const char* part : {"gradients", "moments"})
    EXPECT_LT(adapter["memory_bytes"][part], p["memory_bytes"][part]) << part;
  EXPECT_EQ(adapter["memory_bytes"]["base"], p["memory_bytes"]["base"]);
  EXPECT_FALSE(json::parse(with({"0", "--json"}).out).contains("adapter"));
  const GptRun text = with({"0", "--lora-rank", "4", "--lora-targets", "attn.out"});
  EXPECT_TRUE(names(text.out, {"rank 4"}));
  EXPECT_TRUE(names(text.err, {"gpt finetune"}));
  EXPECT_EQ(with({"0", "--lora-targets", "attn.out"}).status, 2);
  EXPECT_EQ(with({"0", "--lora-rank", "4", "--lora-targets", "nothing"}).status, 2);
  EXPECT_EQ(plan({"--lora-rank", "4"}).status, 2);  // an adapter requires a base model
}

// A config that does not fit into memory is neither allocated nor measured. The plan suggests settings that
// would fit.
TEST(Plan, SaysWhatWouldFit) {
  const GptRun run = plan({"--memory", "0.05", "--batch-size", "4096"});
  ASSERT_EQ(run.status, 0) << run.err;
  const json p = json::parse(run.out);
  EXPECT_FALSE(p["memory_bytes"]["fits"]);
  EXPECT_FALSE(p.contains("time_seconds"));
  ASSERT_FALSE(p["fits_with"].empty());
  for (const json& fit : p["fits_with"]) {
    EXPECT_LE(fit["bytes"].get<double>(), 0.05 * 0x1p30);
    EXPECT_EQ(4096 % fit["micro_batch"].get<int64_t>(), 0);
  }
  const GptRun text = run_gpt({"plan", "--preset", "tiny", "--data", "tales:20000", "--memory", "0.05",
                               "--batch-size", "4096", "--micro-batch", "2048"});
  const size_t first = text.err.find("--micro-batch");
  EXPECT_NE(first, std::string::npos) << text.err;
  EXPECT_EQ(text.err.find("--micro-batch", first + 1), std::string::npos) << "once: " << text.err;
  const GptRun huge = run_gpt({"plan", "--preset", "gpt3-175b", "--n-ctx", "512", "--data", "tales:20000"});
  EXPECT_EQ(huge.status, 0) << huge.err;
  EXPECT_TRUE(names(huge.out, {"--recompute", "--dtype bf16"}));
  EXPECT_FALSE(names(huge.out, {"--micro-batch"})) << "none fits";
}

const char* const kFit =
    R"({"floor": 0.5, "floor_known": true, "A": 30, "a": 0.4, "B": 90, "b": 0.3, "doubts": "",
        "rms_residual_of_log_loss": 0.001, "measured_parameters": [1e4, 1e5], "measured_tokens": [1e4, 1e5],
        "measured_6ND": [1e8, 1e10]})";

class PlanFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_.file(name)) << text;
    return dir_.file(name);
  }
  gpt::test::TempDir dir_;
};

TEST_F(PlanFiles, ForetellsTheLossByAFit) {
  const std::string fit = write("fit.json", kFit);
  const GptRun inside = plan({"--measure", "0", "--fit", dir_.path()});
  ASSERT_EQ(inside.status, 0) << inside.err;
  const json loss = json::parse(inside.out)["loss"];
  const double n = loss["parameters"].get<double>(), d = loss["tokens"].get<double>();
  EXPECT_NEAR(loss["predicted"].get<double>(), 0.5 + 30 / std::pow(n, 0.4) + 90 / std::pow(d, 0.3), 1e-9);
  EXPECT_LE(loss["best_loss"], loss["predicted"]);
  EXPECT_EQ(loss["warning"], "");
  const GptRun outside = plan({"--measure", "0", "--fit", fit, "--steps", "100000"});
  ASSERT_EQ(outside.status, 0) << outside.err;
  EXPECT_NE(json::parse(outside.out)["loss"]["warning"], "") << "it extrapolates";
}

TEST_F(PlanFiles, FitsThatAreNone) {
  for (const char* text : {"", "{}", "[]", R"({"floor": "x"})"}) {
    const GptRun run = plan({"--measure", "0", "--fit", write("fit.json", text)});
    EXPECT_EQ(run.status, 1) << text;
    EXPECT_TRUE(names(run.err, {dir_.file("fit.json")}));
  }
  EXPECT_EQ(plan({"--fit", dir_.file("none")}).status, 1);
}

// The report of a run contains the plan that was written before the run.
TEST_F(PlanFiles, TrainKeepsThePlan) {
  const std::string out = dir_.file("run");
  const std::vector<std::string> run = {
      "--data",  "tales:20000", "--n-layer",    "1", "--n-head",     "2", "--n-embd",  "16", "--n-ctx", "16",
      "--steps", "8",           "--batch-size", "2", "--eval-every", "0", "--threads", "1",  "--out",   out};
  std::vector<std::string> before = {"plan", "--measure", "0.01", "--fit", write("fit.json", kFit)};
  before.insert(before.end(), run.begin(), run.end());
  ASSERT_EQ(run_gpt(before).status, 0);
  const json planned = json::parse(std::ifstream(out + "/plan.json"));
  std::vector<std::string> train = {"train", "--stop-after", "4"};
  train.insert(train.end(), run.begin(), run.end());
  const GptRun first = run_gpt(train);
  ASSERT_EQ(first.status, 0) << first.err;
  const GptRun rest = run_gpt({"train", "--resume", "--out", out});
  ASSERT_EQ(rest.status, 0) << rest.err;
  const json kept = json::parse(std::ifstream(out + "/plan.json"));
  EXPECT_EQ(kept["rates"], planned["rates"]);
  EXPECT_EQ(kept["loss"], planned["loss"]);
  std::stringstream page;
  page << std::ifstream(out + "/report.html").rdbuf();
  EXPECT_TRUE(names(page.str(), {fmt::format("{:.4f}", planned["loss"]["predicted"].get<double>())}));
}

// Suggests the largest preset that gets 20 tokens per parameter in four epochs, or the smallest preset if
// there is none.
TEST(Plan, NamesThePresetThatFits) {
  const auto proposed = [](const char* data) {
    const GptRun run = run_gpt({"plan", "--data", data, "--json"});
    EXPECT_EQ(run.status, 0) << run.err;
    return json::parse(run.out);
  };
  EXPECT_EQ(proposed("tales:20000")["preset"], "tiny");
  const json large = proposed("tales:18500000");  // enough for 3.3 M parameters
  EXPECT_EQ(large["train_tokens"], 16650000);
  for (const json& preset : large["presets"]) {
    if (preset["preset"] != "nanochat-demo") continue;
    EXPECT_LE(20 * preset["parameters"].get<double>(), 4 * 16650000.0);
    EXPECT_EQ(preset["steps"], 4 * 16650000 / (16 * 128));
  }
  expect_error(run_gpt({"plan", "--data", "tales:100"}), 1, {193, 90});  // too short for every preset
  const GptRun text = run_gpt({"plan", "--data", "tales:20000"});
  EXPECT_TRUE(names(text.err, {"gpt plan --preset tiny --steps 23 --data tales:20000"}));
}

TEST(Plan, AdvisesAndSaysWhatEvaluationTakes) {
  const json p = json::parse(plan({"--measure", "0", "--steps", "10000"}).out);
  EXPECT_LE(p["evaluation"]["share"].get<double>(), 0.05);
  EXPECT_EQ(p["evaluation"]["times"], 20);
  ASSERT_EQ(p["advice"].size(), 1u) << p["advice"];
  EXPECT_TRUE(names(p["advice"][0].get<std::string>(), {142}));
  std::vector<std::string> words = with_flags(kRun, {"--measure", "0", "--steps", "10000"});
  std::erase(words, "--json");
  const std::string next = run_gpt(words).err;
  EXPECT_TRUE(names(next.substr(next.rfind("next: ")), {"--steps 281"})) << next;
  EXPECT_EQ(plan({"--measure", "0", "--patience", "3", "--val-fraction", "0"}).status, 2);
}

TEST(Plan, ARunTooShortForWarmUpHasNoNoteAboutIt) {
  const auto notes = [](const char* steps) {
    return run_gpt({"plan", "--preset", "tiny", "--data", "tales:20000", "--steps", steps, "--measure", "0"})
        .err;
  };
  EXPECT_TRUE(names(notes("8"), {2, 50, "tiny"}));
  EXPECT_FALSE(names(notes("3"), {50, "tiny"}));
}

TEST(Plan, RefusesWhatTrainRefuses) {
  EXPECT_EQ(run_gpt({"plan"}).status, 2);
  EXPECT_EQ(plan({"--n-layr", "2"}).status, 2);
  EXPECT_EQ(plan({"--micro-batch", "3"}).status, 2);
  EXPECT_EQ(plan({"--measure", "-1"}).status, 2);
}

}  // namespace
