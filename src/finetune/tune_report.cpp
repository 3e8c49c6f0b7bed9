#include "finetune/tune_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/ranges.h"
#include "finetune/examples.h"
#include "report/next_step.h"

namespace gpt {

nlohmann::json used_settings(const TuneConfig& config) {
  const std::vector<std::string> used = used_keys(config);
  const nlohmann::json all = tune_config_json(config);
  nlohmann::json settings = nlohmann::json::object();
  for (const auto& [key, value] : all.items()) {
    if (std::ranges::find(used, key) != used.end()) settings[key] = value;
  }
  return settings;
}

bool is_still_falling(std::span<const double> held_out, std::span<const double> training) {
  const auto falls = [](double before, double after, double share) {
    return after < before - share * std::abs(before);
  };
  const size_t n = held_out.size();
  if (n == 2) return falls(held_out[0], held_out[1], 0.1);
  if (n > 2) {
    const double last = held_out[n - 2] - held_out[n - 1], all = held_out[0] - held_out[n - 1];
    return last > 0.2 * all && falls(held_out[n - 2], held_out[n - 1], 0.01);
  }
  const size_t quarter = training.size() / 4;
  if (quarter == 0) return false;
  const auto mean = [&](std::span<const double> losses) {
    return sum_of(losses) / static_cast<double>(losses.size());
  };
  return falls(mean(training.last(2 * quarter).first(quarter)), mean(training.last(quarter)), 0.05);
}

std::vector<std::string> use_command(const TuneConfig& config, const std::string& model) {
  if (find_task(config.task)) return {"gpt", "classify", model, "--data", config.train().data[0]};
  const bool chats = config.task == "chat" || path_exists(model + "/chat_template.jinja") ||
                     path_exists(model + "/last/chat_template.jinja");
  const bool adapts = config.lora_rank > 0;
  if (chats && adapts) return {"gpt", "chat", config.model, "--adapter", model};
  if (chats) return {"gpt", "chat", model};
  if (adapts) return {"gpt", "generate", config.model, "--adapter", model, "--prompt", "..."};
  return {"gpt", "generate", model, "--prompt", "..."};
}

ReportCommand use_command_for_report(const TuneConfig& config, const std::string& model) {
  return {find_task(config.task) ? "Label texts" : "Use the model",
          shell_command(use_command(config, model))};
}

}  // namespace gpt
