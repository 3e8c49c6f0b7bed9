#include "sweep/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "model/model_counts.h"

namespace gpt {
namespace {

constexpr size_t kMostRuns = 1000;

bool is_safe(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' || c == '+' ||
         c == '=';
}

}  // namespace

SweepAxis parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail_usage("`over` \"{}\": expected KEY=VALUE,VALUE..., for example n_layer=2,4,8", text.substr(0, 64));
  SweepAxis axis{text.substr(0, equals), {}};
  axis.key.erase(0, axis.key.find_first_not_of('-'));
  std::ranges::replace(axis.key, '-', '_');
  const auto names = transformed(config_keys(), &KeyInfo::name);
  if (std::ranges::find(names, axis.key) == names.end())
    fail_parameter("over", "unknown config key \"{}\"{}", axis.key.substr(0, 64),
                   did_you_mean(axis.key, names));
  for (const char* fixed :
       {"steps", "seed", "stop_after", "threads", "device", "eval_batches", "vocab_size"}) {
    if (axis.key == fixed) {
      fail_parameter("over",
                     "{} cannot be swept; set budgets with `flops`, `minutes` or `steps`, and measure noise "
                     "with `seeds`",
                     axis.key);
    }
  }
  for (const std::string_view part : split(std::string_view(text).substr(equals + 1), ',')) {
    const std::string value(part);
    if (value.empty()) fail_usage("`over` {}: a value is empty", axis.key);
    if (std::ranges::find(axis.values, value) != axis.values.end())
      fail_usage("`over` {}: the value {} occurs twice", axis.key, value.substr(0, 64));
    axis.values.push_back(value);
  }
  return axis;
}

std::vector<SweepPoint> grid_of(const std::vector<SweepAxis>& axes) {
  std::vector<SweepPoint> points = {{}};
  for (const SweepAxis& axis : axes) {
    if (points.size() * axis.values.size() > kMostRuns)
      fail_parameter("over", "more than {} runs; leave out some values", kMostRuns);
    std::vector<SweepPoint> next;
    for (const SweepPoint& point : points) {
      if (point.count(axis.key) > 0) fail_parameter("over", "{} is given twice", axis.key);
      for (const std::string& value : axis.values) {
        next.push_back(point);
        next.back()[axis.key] = value;
      }
    }
    points = std::move(next);
  }
  return points;
}

std::string run_name(const SweepPoint& point, double budget, int64_t seed, bool many_budgets,
                     bool many_seeds) {
  std::string name;
  for (const auto& [key, value] : point)
    name += fmt::format("{}{}={}", name.empty() ? "" : "-", key, value);
  if (name.empty()) name = "run";
  if (many_budgets) name += fmt::format("-flops={:.3g}", budget);
  if (many_seeds) name += fmt::format("-seed={}", seed);
  for (char& c : name) {
    if (!is_safe(c)) c = '_';
  }
  return name.substr(0, 200);
}

std::string shape_name(const SweepRun& run) {
  const ModelConfig& model = run.config.model;
  return fmt::format("{} layer{} of {}", model.n_layer, model.n_layer == 1 ? "" : "s", model.n_embd);
}

int64_t steps_for(double budget, double flops_per_token, double tokens_per_step) {
  const double steps = std::round(budget / (flops_per_token * tokens_per_step));
  return static_cast<int64_t>(std::clamp(steps, 1.0, 1e12));
}

void set_steps(SweepRun& run, int64_t steps) {
  TrainConfig& train = run.config.train;
  train.steps = steps;
  train.warmup = std::min(train.warmup, steps / 10);
  if (train.eval_every == 0) train.eval_every = std::max<int64_t>(1, steps / 8);
  run.tokens = static_cast<double>(steps * train.batch_size * run.config.model.n_ctx);
  run.flops = run.tokens * run.flops_per_token;
}

int64_t scaled_d_ff(int64_t d_ff, int64_t n_embd, int64_t new_n_embd) {
  if (d_ff == 0) return 0;
  const double exact =
      static_cast<double>(d_ff) * static_cast<double>(new_n_embd) / static_cast<double>(n_embd);
  return std::max<int64_t>(8, 8 * static_cast<int64_t>(std::round(exact / 8)));
}

ModelConfig with_width(ModelConfig config, int64_t width) {
  config.d_ff = scaled_d_ff(config.d_ff, config.n_embd, width);
  config.n_embd = width;
  config.head_dim = 0;
  complete(config);
  return config;
}

int64_t width_for(const ModelConfig& config, int64_t parameters, int64_t unit) {
  int64_t low = 1, high = 1;
  const auto count = [&](int64_t units) {
    return static_cast<double>(ModelCounts(with_width(config, units * unit)).total);
  };
  const auto target = static_cast<double>(parameters);
  while (high * unit < (1 << 16) && count(high) < target)
    high *= 2;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (count(middle) < target ? low : high) = middle;
  }
  return (std::abs(count(low) - target) <= std::abs(count(high) - target) ? low : high) * unit;
}

// The list does not contain the config, because run_json writes the config with run_config_json.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SweepRun, name, point, seed, parameters, flops_per_token, tokens, flops,
                                   budget)

nlohmann::json run_json(const SweepRun& run) {
  nlohmann::json out = run;
  out["config"] = run_config_json(run.config);
  return out;
}

SweepRun read_run(const nlohmann::json& object, const std::string& source) {
  SweepRun run;
  try {
    object.get_to(run);
    Settings settings;
    settings.add_json(object.at("config"), source);
    run.config = settings.resolve();
  } catch (const nlohmann::json::exception&) {
    fail("{}: a run lacks one of the keys name, point, seed, parameters, tokens, flops, budget and config",
         source);
  }
  if (run.name.empty() || run.name[0] == '.' || !std::ranges::all_of(run.name, is_safe))
    fail("{}: the run name \"{}\" is not a plain folder name", source, run.name.substr(0, 64));
  return run;
}

}  // namespace gpt
