#include "sweep/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/model_counts.h"
#include "support/names.h"
#include "sweep/findings.h"

namespace gpt {
namespace {

using test::names;

TEST(SweepPlan, ParsesAxes) {
  const SweepAxis axis = parse_axis("n_layer=2,4,8");
  EXPECT_EQ(axis.key, "n_layer");
  EXPECT_EQ(axis.values, (std::vector<std::string>{"2", "4", "8"}));
  EXPECT_EQ(parse_axis("--n-embd=64").key, "n_embd");
  EXPECT_EQ(parse_axis("norm=layer,rms").values.size(), 2u);
  for (const char* bad : {"", "=1", "n_layer", "n_layer=", "n_layer=1,,2", "n_layer=1,", "n_layer=2,2",
                          "n_layers=2", "steps=1,2", "seed=1,2"}) {
    EXPECT_ERROR(parse_axis(bad), ErrorCode::invalid_argument) << bad;
  }
}

TEST(SweepPlan, GridHasEveryCombination) {
  const std::vector<SweepPoint> points = grid_of({{"n_layer", {"1", "2"}}, {"lr", {"1e-3", "2e-3", "3e-3"}}});
  ASSERT_EQ(points.size(), 6u);
  EXPECT_EQ(points[0], (SweepPoint{{"n_layer", "1"}, {"lr", "1e-3"}}));
  EXPECT_EQ(points[1], (SweepPoint{{"n_layer", "1"}, {"lr", "2e-3"}}));
  EXPECT_EQ(points[5], (SweepPoint{{"n_layer", "2"}, {"lr", "3e-3"}}));
  EXPECT_ERROR(grid_of({{"lr", {"1"}}, {"lr", {"2"}}}), ErrorCode::invalid_argument);
  std::vector<std::string> many;
  for (int i = 0; i < 101; ++i)
    many.push_back(std::to_string(i));
  EXPECT_ERROR(grid_of({{"a", many}, {"b", many}}), ErrorCode::invalid_argument);
}

TEST(SweepPlan, NamesAreFolderNames) {
  EXPECT_EQ(run_name({{"n_layer", "2"}, {"lr", "1e-3"}}, 0, 1, false, false), "lr=1e-3-n_layer=2");
  EXPECT_EQ(run_name({{"n_layer", "2"}}, 3e12, 7, true, true), "n_layer=2-flops=3e+12-seed=7");
  EXPECT_EQ(run_name({{"data", "../../x y"}}, 0, 1, false, false), "data=.._.._x_y");
}

TEST(SweepPlan, StepsSpendTheBudget) {
  EXPECT_EQ(steps_for(1e12, 6e6, 1000), 167);
  EXPECT_EQ(steps_for(1, 6e6, 1000), 1);
  SweepRun run;
  run.config.train.batch_size = 10;
  run.config.model.n_ctx = 100;
  run.config.train.warmup = 50;
  run.config.train.eval_every = 0;
  run.flops_per_token = 6e6;
  set_steps(run, 160);
  EXPECT_EQ(run.config.train.steps, 160);
  EXPECT_EQ(run.config.train.warmup, 16);
  EXPECT_EQ(run.config.train.eval_every, 20);
  EXPECT_EQ(run.tokens, 160e3);
  EXPECT_EQ(run.flops, 160e3 * 6e6);
}

TEST(SweepPlan, WidthForParameters) {
  EXPECT_EQ(scaled_d_ff(352, 128, 64), 176);
  EXPECT_EQ(scaled_d_ff(0, 128, 64), 0);
  ModelConfig config;
  config.vocab_size = 256;
  config.n_ctx = 128;
  config.n_head = 4;
  config.n_layer = 2;
  config.n_embd = 128;
  complete(config);
  for (const int64_t layers : {1, 2, 8}) {
    config.n_layer = layers;
    const int64_t width = width_for(config, 800000, 8);
    EXPECT_EQ(width % 8, 0);
    ModelConfig chosen = config;
    chosen.n_embd = width;
    chosen.head_dim = 0;
    chosen.d_ff = 4 * width;
    complete(chosen);
    EXPECT_NEAR(static_cast<double>(ModelCounts(chosen).total), 8e5, 1e5) << layers;
  }
}

SweepRun some_run(const SweepPoint& point, double parameters, double budget, int64_t seed) {
  SweepRun run{.point = point, .seed = seed, .parameters = parameters, .flops_per_token = 6 * parameters};
  run.budget = run.flops = budget;
  run.tokens = budget / run.flops_per_token;
  run.name = run_name(point, budget, seed, false, true);
  return run;
}

void add(Sweep& sweep, const SweepRun& run, double loss) {
  sweep.runs.push_back(run);
  sweep.results.push_back({.state = SweepResult::State::done, .loss = loss});
}

TEST(SweepFindings, EffectsAndNoise) {
  Sweep sweep;
  for (int64_t seed = 1; seed <= 2; ++seed) {
    const double off = seed == 1 ? 0.002 : -0.002;
    add(sweep, some_run({{"n_layer", "2"}, {"lr", "1"}}, 1e5, 1e12, seed), 1.10 + off);
    add(sweep, some_run({{"n_layer", "4"}, {"lr", "1"}}, 2e5, 1e12, seed), 1.30 + off);
    add(sweep, some_run({{"n_layer", "2"}, {"lr", "2"}}, 1e5, 1e12, seed), 1.20 + off);
    add(sweep, some_run({{"n_layer", "4"}, {"lr", "2"}}, 2e5, 1e12, seed), 1.07 + off);
  }
  const Findings found = find_out(sweep);
  ASSERT_TRUE(found.noise);
  EXPECT_NEAR(*found.noise, 0.002 * std::sqrt(2.0), 1e-9);
  ASSERT_EQ(found.means.size(), 4u);
  EXPECT_NEAR(found.means[0].loss, 1.07, 1e-9);
  EXPECT_EQ(found.means[0].seeds, 2);
  ASSERT_EQ(found.sentences.size(), 3u);
  EXPECT_TRUE(names(found.sentences[1], {"n_layer = 4", 2, "0.0300", "lr", "0.0028"}));
  EXPECT_TRUE(names(found.sentences[2], {"n_layer=4"}));
  EXPECT_FALSE(found.fit);
  EXPECT_TRUE(names(found.fit_note, {2}));
}

TEST(SweepFindings, SmallDifferencesAreCalledSo) {
  const auto sentence = [](double between_seeds) {
    Sweep sweep;
    for (int64_t seed = 1; seed <= 2; ++seed) {
      const double off = seed == 1 ? 0 : between_seeds;
      add(sweep, some_run({{"norm", "rms"}}, 1e5, 1e12, seed), 1 + off);
      add(sweep, some_run({{"norm", "layer"}}, 1e5, 1e12, seed), 1.01 + off);
    }
    return find_out(sweep).sentences[0];
  };
  EXPECT_TRUE(names(sentence(0.1), {"norm = rms", "layer", "0.0100", "0.0707"}));
  EXPECT_TRUE(names(sentence(0.001), {"norm = rms", "layer", "0.0100", "0.0007"}));
  EXPECT_GT(sentence(0.1).size(), sentence(0.001).size()) << "it says more";
}

// With few steps, rounding to whole steps makes the FLOPs unequal. The findings must then not claim equal
// FLOPs.
TEST(SweepFindings, UnequalFlopsAreCalledSo) {
  Sweep sweep;
  add(sweep, some_run({{"n_layer", "2"}}, 1e5, 1e12, 1), 1.0);
  add(sweep, some_run({{"n_layer", "4"}}, 2e5, 1e12, 1), 1.2);
  EXPECT_EQ(find_out(sweep).flops_difference, 0);
  sweep.runs[0].flops = 0.8e12;  // the best run had fewer
  const Findings found = find_out(sweep);
  EXPECT_NEAR(found.flops_difference, 0.25, 1e-12);
  EXPECT_TRUE(names(found.sentences[0], {"n_layer = 2", 4, "25.0 %"}));
  EXPECT_TRUE(names(found.sentences[1], {"1.00 T", "n_layer=2"}));
  EXPECT_NEAR(findings_json(sweep, found)["flops_difference"].get<double>(), 0.25, 1e-12);
}

TEST(SweepFindings, FailedAndWaitingRunsAreLeftOut) {
  Sweep sweep;
  add(sweep, some_run({{"lr", "1"}}, 1e5, 1e12, 1), 1.0);
  sweep.runs.push_back(some_run({{"lr", "9"}}, 1e5, 1e12, 1));
  sweep.results.push_back({.state = SweepResult::State::failed, .error = "nan"});
  const Findings found = find_out(sweep);
  EXPECT_EQ(found.means.size(), 1u);
  EXPECT_FALSE(found.noise);
  EXPECT_EQ(findings_json(sweep, found)["runs"][1]["state"], "failed");
}

TEST(SweepPlan, RunsComeBackFromJson) {
  SweepRun run = some_run({{"lr", "1e-3"}}, 1e5, 1e12, 3);
  run.config.model.vocab_size = 256;
  complete(run.config.model);
  complete(run.config.train);
  const nlohmann::json object = run_json(run);
  const SweepRun back = read_run(object, "x");
  EXPECT_EQ(back.name, run.name);
  EXPECT_EQ(back.config.model, run.config.model);
  EXPECT_EQ(back.config.train, run.config.train);
  for (const char* name : {"", "..", "a/b", ".hidden", "a b"}) {
    nlohmann::json bad = object;
    bad["name"] = name;
    EXPECT_THROW(read_run(bad, "x"), Error) << name;
  }
  for (const char* field : {"name", "point", "config", "flops"}) {
    nlohmann::json bad = object;
    bad.erase(field);
    EXPECT_THROW(read_run(bad, "x"), Error) << field;
    bad[field] = nlohmann::json::array({1});
    EXPECT_THROW(read_run(bad, "x"), Error) << field;
  }
  EXPECT_THROW(read_run(nlohmann::json(3), "x"), Error);
}

}  // namespace
}  // namespace gpt
