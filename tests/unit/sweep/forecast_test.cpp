#include "sweep/loss_law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using nlohmann::json;
using test::names;
using test::TempDir;

LossFit known_fit() {
  LossFit fit{.law = {.floor = 0.6, .A = 30, .a = 0.38, .B = 90, .b = 0.31}, .floor_known = true};
  fit.parameters = {1e4, 1e7};
  fit.tokens = {1e3, 1e8};
  fit.flops = {1e8, 1e16};
  return fit;
}

RunPlan small_plan(int64_t steps) {
  PlanSubject s;
  s.config.model = test::make_config({"gpt2", "gpt2", R"({"n_embd": 64, "d_ff": 256, "n_ctx": 64})"});
  s.config.train.batch_size = 8;
  s.config.train.steps = steps;
  complete(s.config.train);
  return RunPlan(s, 10000);
}

TEST(Forecast, IsTheLaw) {
  const RunPlan plan = small_plan(1000);
  const LossFit fit = known_fit();
  const LossForecast f = forecast_loss(fit, plan);
  EXPECT_DOUBLE_EQ(f.loss,
                   fit.law.loss(static_cast<double>(plan.counts.total), static_cast<double>(plan.tokens)));
  EXPECT_EQ(f.warning, "");
  // The best size takes the same compute, and slightly different sizes have a higher loss.
  EXPECT_LE(f.best_loss, f.loss);
  EXPECT_NEAR(f.best_parameters * f.best_tokens, f.parameters * f.tokens, 1e-6 * f.parameters * f.tokens);
  for (const double factor : {0.9, 1.1})
    EXPECT_GT(fit.law.loss(f.best_parameters * factor, f.best_tokens / factor), f.best_loss);
  EXPECT_EQ(f.best_flags.rfind("--n-layer ", 0), 0u) << f.best_flags;
}

TEST(Forecast, WarnsOutsideWhatWasMeasured) {
  const RunPlan plan = small_plan(1000);
  LossFit fit = known_fit();
  fit.parameters = {1e2, 1e3};
  const auto parameters = static_cast<double>(plan.counts.total), tokens = static_cast<double>(plan.tokens);
  EXPECT_TRUE(names(forecast_loss(fit, plan).warning, {format_count(parameters)}));
  fit = known_fit();
  fit.tokens = {1e7, 1e8};
  EXPECT_TRUE(names(forecast_loss(fit, plan).warning, {format_count(tokens)}));
  fit = known_fit();
  fit.flops = {1e5, 1e6};
  EXPECT_TRUE(names(forecast_loss(fit, plan).warning, {format_count(6 * parameters * tokens)}));
  fit = known_fit();
  fit.doubts = "doubt-7";
  EXPECT_TRUE(names(forecast_loss(fit, plan).warning, {"doubt-7"}));
}

TEST(Forecast, FlatLawsNameNoBestSize) {
  for (double LossLaw::*field : {&LossLaw::a, &LossLaw::b, &LossLaw::A, &LossLaw::B}) {
    LossFit fit = known_fit();
    fit.law.*field = 0;
    const LossForecast f = forecast_loss(fit, small_plan(10));
    EXPECT_TRUE(std::isfinite(f.loss));
    EXPECT_EQ(f.best_parameters, 0);
  }
}

TEST(Forecast, ReadsWhatASweepWrites) {
  TempDir dir;
  LossFit fit = known_fit();
  fit.doubts = "none";
  test::write_plain_file(dir.file("fit.json"), loss_fit_json(fit).dump());
  for (const std::string& path : {dir.path(), dir.file("fit.json")}) {
    const LossFit read = read_loss_fit(path);
    EXPECT_EQ(read.law.A, fit.law.A);
    EXPECT_EQ(read.law.b, fit.law.b);
    EXPECT_EQ(read.tokens.high, fit.tokens.high);
    EXPECT_EQ(read.doubts, "none");
    EXPECT_TRUE(read.floor_known);
  }
}

TEST(Forecast, MalformedFitsAreNamed) {
  TempDir dir;
  const json good = loss_fit_json(known_fit());
  std::vector<std::string> texts = {"", "{", "[]", "1", "{}"};
  for (const char* key : {"floor", "A", "a", "B", "b", "floor_known", "doubts", "rms_residual_of_log_loss",
                          "measured_parameters", "measured_tokens", "measured_6ND"}) {
    for (const json& value : {json(nullptr), json(-1), json(1e300), json::array({1}), json::array({2, 1}),
                              json::array({0, 1}), json::array({"a", "b"}), json::object()}) {
      json changed = good;
      changed[key] = value;
      texts.push_back(changed.dump());
    }
    json less = good;
    less.erase(key);
    texts.push_back(less.dump());
  }
  for (const std::string& text : texts) {
    test::write_plain_file(dir.file("fit.json"), text);
    EXPECT_TRUE(names(test::error_of([&] { read_loss_fit(dir.path()); }), {dir.file("fit.json")})) << text;
  }
  EXPECT_THROW(read_loss_fit(dir.file("none")), Error);
  std::filesystem::remove(dir.file("fit.json"));
  EXPECT_THROW(read_loss_fit(dir.path()), Error);
}

}  // namespace
}  // namespace gpt
