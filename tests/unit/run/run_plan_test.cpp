#include "run/run_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/names.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using nlohmann::json;
using test::TempDir;

PlanSubject evaluated_subject() {
  PlanSubject s;
  s.config.model = test::make_config({"gpt2", "gpt2", R"({"n_embd": 64, "d_ff": 256, "n_ctx": 64})"});
  s.config.train.batch_size = 12;
  s.config.train.steps = 100;
  complete(s.config.train);
  s.evaluates = true;
  return s;
}

RunPlan measured_plan() {
  RunPlan plan(evaluated_subject(), 10000);
  plan.rates = RunRates{.micro_batch = 2, .update = 1, .setup = 4};
  plan.rates->source = "a test";
  plan.forecast = LossForecast{.parameters = static_cast<double>(plan.counts.total),
                               .tokens = static_cast<double>(plan.tokens),
                               .loss = 2.5,
                               .best_parameters = 1000,
                               .best_tokens = 2000,
                               .best_loss = 2.25,
                               .best_flags = "--n-embd 8",
                               .warning = "doubt-7"};
  return plan;
}

using Cells = std::vector<std::string>;

// Returns true if a row of the section has these cells from `first` on: estimate, actual value, ratio.
bool has_row(const ReportSection& section, const Cells& cells, std::ptrdiff_t first = 1) {
  return std::ranges::any_of(section.tables.at(0).table.rows, [&](const Cells& row) {
    return Cells(row.begin() + first, row.end()) == cells;
  });
}

TEST(RunPlan, RatesAndForecastComeBack) {
  const RunPlan plan = measured_plan();
  RunPlan other(evaluated_subject(), 10000);
  ASSERT_TRUE(take_plan(other, run_plan_json(plan), "plan.json"));
  ASSERT_TRUE(other.rates && other.forecast);
  EXPECT_EQ(run_plan_json(other), run_plan_json(plan));
}

TEST(RunPlan, PausesAreNoOtherRun) {
  PlanSubject paused = evaluated_subject();
  paused.config.train.stop_after = 10;
  RunPlan plan(paused, 10000);
  ASSERT_TRUE(take_plan(plan, run_plan_json(measured_plan()), "plan.json"));
  ASSERT_TRUE(plan.rates);
  EXPECT_DOUBLE_EQ(plan.time()->steps, 30);
  EXPECT_FALSE(plan.forecast) << "the loss after other tokens";
}

TEST(RunPlan, OtherSettingsTakeNothing) {
  PlanSubject changed = evaluated_subject();
  changed.config.train.lr = 1;
  RunPlan plan(changed, 10000);
  EXPECT_FALSE(take_plan(plan, run_plan_json(measured_plan()), "plan.json"));
  EXPECT_FALSE(plan.rates);
}

TEST(RunPlan, MalformedPlansAreNamed) {
  const json good = run_plan_json(measured_plan());
  std::vector<json> bad = {json::array(), json::object(), {{"config", 1}}, nullptr};
  for (const char* key : {"rates", "loss"}) {
    for (const json& value : {json(nullptr), json(1), json::array({1}), json::object()}) {
      bad.push_back(good);
      bad.back()[key] = value;
    }
  }
  for (const json& value : {json("1"), json(-1), json(nullptr), json::array({1})}) {
    bad.push_back(good);
    bad.back()["rates"]["micro_batch"] = value;
  }
  for (const json& written : bad) {
    RunPlan plan(evaluated_subject(), 10000);
    EXPECT_TRUE(test::refused([&] { take_plan(plan, written, "run/plan.json"); }, "run/plan.json"))
        << written.dump();
  }
}

// The first step touches all memory, so it counts separately.
TEST(PlanKeeper, FirstStepsGiveTheRates) {
  TempDir dir;
  std::string note;
  PlanKeeper keeper(dir.path(), RunPlan(evaluated_subject(), 10000), note);
  keeper.step(9, 4);
  EXPECT_FALSE(keeper.plan().rates);
  for (int i = 0; i < 2; ++i)
    keeper.step(3, 4);
  ASSERT_TRUE(keeper.plan().rates);
  keeper.step(1000, 4);
  EXPECT_DOUBLE_EQ(keeper.plan().time()->step, 3);
  EXPECT_DOUBLE_EQ(keeper.plan().time()->steps, 9 + 99 * 3);
  EXPECT_DOUBLE_EQ(keeper.plan().time()->setup, 4);
  EXPECT_TRUE(test::names(keeper.plan().rates->source, {2, 3}));
  // A process that resumes the run finds these rates.
  const PlanKeeper resumed(dir.path(), RunPlan(evaluated_subject(), 10000), note);
  EXPECT_EQ(note, "");
  ASSERT_TRUE(resumed.plan().rates);
  EXPECT_DOUBLE_EQ(resumed.plan().time()->step, 3);
}

TEST(PlanKeeper, UnusableFilesStopNoRun) {
  TempDir dir;
  for (const char* text : {"", "{", "[]", "{\"config\": {\"lr\": 2}}"}) {
    test::write_plain_file(dir.file("plan.json"), text);
    std::string note;
    const PlanKeeper keeper(dir.path(), RunPlan(evaluated_subject(), 10000), note);
    EXPECT_FALSE(keeper.plan().rates);
    EXPECT_TRUE(test::names(note, {dir.file("plan.json")})) << text;
  }
}

TEST(PlanSection, DifferencesAtTheEnd) {
  const RunPlan plan = measured_plan();
  const ReportSection section = plan_section(plan, {.steps = 100,
                                                    .tokens = plan.tokens,
                                                    .time = {.steps = 330, .saving = 2, .setup = 4},
                                                    .peak_bytes = plan.memory.total() / 2,
                                                    .first_loss = 5.0,
                                                    .val_loss = 2.0});
  EXPECT_EQ(section.tables[0].table.columns.size(), 4u);
  EXPECT_TRUE(has_row(section, {"76,800", "76,800", "+0.0 %"}));
  EXPECT_TRUE(has_row(section, {"5 min 00 s", "5 min 30 s", "+10.0 %"}));
  EXPECT_TRUE(has_row(section, {"", "2.0 s", ""})) << "checkpoints";
  EXPECT_FALSE(has_row(section, {"", "", ""})) << "samples are neither planned nor made";
  EXPECT_TRUE(has_row(section, {"-50.0 %"}, 3)) << "peak memory";
  EXPECT_TRUE(has_row(section, {"2.5000", "2.0000", "-20.0 %"}));
  EXPECT_TRUE(std::ranges::any_of(section.tables[0].table.rows,
                                  [](const Cells& row) { return row.at(2) == "5.0000"; }));
  EXPECT_TRUE(test::names(section.text, {"doubt-7"}));
}

TEST(PlanSection, SharesWhileItRuns) {
  const RunPlan plan = measured_plan();
  const ReportSection section =
      plan_section(plan, {.steps = 25, .tokens = plan.tokens / 4, .time = {.steps = 90, .setup = 4}});
  EXPECT_EQ(section.tables[0].table.columns.size(), 4u);
  EXPECT_TRUE(has_row(section, {"76,800", "19,200", "25.0 %"}));
  EXPECT_TRUE(has_row(section, {"5 min 00 s", "1 min 30 s", "30.0 %"}));
  EXPECT_TRUE(has_row(section, {"2.5000", "", ""}));
}

}  // namespace
}  // namespace gpt
