// gpt plan: what a training run asks for, before it starts.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "run_gpt.h"

namespace {

using nlohmann::json;

const std::vector<std::string> kRun = {"plan", "--data",       "tales:20000", "--n-layer", "2",  "--n-head",
                                       "2",    "--n-embd",     "32",          "--n-ctx",   "32", "--steps",
                                       "100",  "--batch-size", "8",           "--json"};

GptRun plan(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = kRun;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_gpt(arguments);
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

// What does not fit is neither allocated nor measured, and what would fit is computed.
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
  const GptRun huge = run_gpt({"plan", "--preset", "gpt3-175b", "--n-ctx", "512", "--data", "tales:20000"});
  EXPECT_EQ(huge.status, 0) << huge.err;
  EXPECT_NE(huge.out.find("no micro-batch fits"), std::string::npos);
}

TEST(Plan, RefusesWhatTrainRefuses) {
  EXPECT_EQ(run_gpt({"plan"}).status, 2);
  EXPECT_EQ(plan({"--n-layr", "2"}).status, 2);
  EXPECT_EQ(plan({"--micro-batch", "3"}).status, 2);
  EXPECT_EQ(plan({"--measure", "-1"}).status, 2);
}

}  // namespace
