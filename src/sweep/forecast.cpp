#include "sweep/forecast.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "io/json.h"
#include "sweep/plan.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr double kSmallestExponent = 1e-3;  // below it the law names no best size

// Reads fields of a fit, naming the file in what it throws.
class FitReader {
 public:
  FitReader(const json& fit, const std::string& path) : fit_(fit), path_(path) {}

  double number(const char* key, double least, double most) const {
    const json& value = field(key);
    if (!value.is_number()) wrong(key, "a number", value);
    const auto x = value.get<double>();
    if (!(x >= least && x <= most)) wrong(key, fmt::format("a number from {:g} to {:g}", least, most), value);
    return x;
  }
  Interval interval(const char* key) const {
    const json& value = field(key);
    const bool numbers =
        value.is_array() && value.size() == 2 && value[0].is_number() && value[1].is_number();
    const Interval i = numbers ? Interval{value[0].get<double>(), value[1].get<double>()} : Interval{};
    if (!(i.low > 0 && i.low <= i.high && std::isfinite(i.high)))
      wrong(key, "[lowest, highest], two positive numbers", value);
    return i;
  }
  std::string text(const char* key) const {
    const json& value = field(key);
    if (!value.is_string()) wrong(key, "a text", value);
    return value.get<std::string>();
  }
  bool flag(const char* key) const {
    const json& value = field(key);
    if (!value.is_boolean()) wrong(key, "true or false", value);
    return value.get<bool>();
  }

 private:
  const json& field(const char* key) const {
    const auto found = fit_.find(key);
    if (found == fit_.end())
      fail("{}: expected the fit of a sweep with \"{}\", found none; name a folder that gpt sweep wrote",
           path_, key);
    return *found;
  }
  [[noreturn]] void wrong(const char* key, const std::string& expected, const json& found) const {
    fail("{}: \"{}\": expected {}, found {}; name a folder that gpt sweep wrote", path_, key, expected,
         found.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 64));
  }

  const json& fit_;
  const std::string& path_;
};

// "10.8 M parameters are 12 times the largest of the sweep"; "" inside the range.
std::string outside(double value, const Interval& seen, const char* what) {
  constexpr double kSlack = 1.1;
  if (value > kSlack * seen.high)
    return fmt::format("{} {} are {:.3g} times the most of the sweep", format_count(value), what,
                       value / seen.high);
  if (value * kSlack < seen.low)
    return fmt::format("{} {} are {:.3g} of the fewest of the sweep", format_count(value), what,
                       value / seen.low);
  return "";
}

std::string warning_for(const LossFit& fit, double parameters, double tokens) {
  std::vector<std::string> reasons;
  for (std::string reason :
       {outside(parameters, fit.parameters, "parameters"), outside(tokens, fit.tokens, "tokens"),
        outside(6 * parameters * tokens, fit.flops, "operations (6 N D)")}) {
    if (!reason.empty()) reasons.push_back(std::move(reason));
  }
  std::string text;
  if (!reasons.empty()) text = fmt::format("this extrapolates: {}", fmt::join(reasons, ", "));
  if (!fit.doubts.empty())
    text += fmt::format("{}the fit doubts itself: {}", text.empty() ? "" : "; ", fit.doubts);
  return text;
}

// The planned model with another width, of about so many parameters, and the steps for so many operations.
std::string flags_for(const RunPlan& plan, double parameters) {
  SweepRun run{.config = plan.subject.config};
  ModelConfig& model = run.config.model;
  if (!(parameters < 1e15)) return "";
  const int64_t width = width_for(model, static_cast<int64_t>(parameters), 2 * model.n_head);
  model.d_ff = scaled_d_ff(model.d_ff, model.n_embd, width);
  model.n_embd = width;
  model.head_dim = 0;
  complete(model);
  const ModelCounts counts(model);
  const int64_t steps =
      steps_for(plan.flops(), counts.training_flops(model.n_ctx), static_cast<double>(plan.step_tokens));
  std::string flags = fmt::format("--n-layer {} --n-embd {}", model.n_layer, width);
  if (model.d_ff != 4 * width) flags += fmt::format(" --d-ff {}", model.d_ff);
  return flags + fmt::format(" --steps {}", steps);
}

}  // namespace

LossFit read_loss_fit(const std::string& given) {
  const bool folder = std::filesystem::is_directory(given);
  const std::string path = folder ? given + "/fit.json" : given;
  if (folder && !std::filesystem::exists(path))
    fail("{}: expected fit.json, found none; gpt sweep fits a law when it has runs of {} sizes or lengths",
         given, kFewestFitPoints);
  const json object = read_json_file(path);
  if (!object.is_object()) fail("{}: expected the fit of a sweep, a JSON object, found something else", path);
  const FitReader fit(object, path);
  constexpr double kMost = 1e30;
  LossFit out;
  out.law = {.floor = fit.number("floor", 0, kMost),
             .A = fit.number("A", 0, kMost),
             .a = fit.number("a", 0, 10),
             .B = fit.number("B", 0, kMost),
             .b = fit.number("b", 0, 10)};
  out.floor_known = fit.flag("floor_known");
  out.rms_residual = fit.number("rms_residual_of_log_loss", 0, kMost);
  out.parameters = fit.interval("measured_parameters");
  out.tokens = fit.interval("measured_tokens");
  out.flops = fit.interval("measured_6ND");
  out.doubts = fit.text("doubts");
  return out;
}

LossForecast forecast_loss(const LossFit& fit, const RunPlan& plan) {
  const auto parameters = static_cast<double>(plan.counts.total), tokens = static_cast<double>(plan.tokens);
  LossForecast out{.parameters = parameters, .tokens = tokens, .loss = fit.law.loss(parameters, tokens)};
  out.warning = warning_for(fit, parameters, tokens);
  const LossLaw& law = fit.law;
  if (!(law.a > kSmallestExponent && law.b > kSmallestExponent && law.A > 0 && law.B > 0)) return out;
  const double per_parameter = plan.flops() / tokens / parameters;
  const double best = law.best_parameters(plan.flops(), per_parameter);
  if (!(best >= 1 && std::isfinite(best))) return out;
  out.best_parameters = best;
  out.best_tokens = plan.flops() / per_parameter / best;
  out.best_loss = law.loss(best, out.best_tokens);
  out.best_flags = flags_for(plan, best);
  return out;
}

}  // namespace gpt
