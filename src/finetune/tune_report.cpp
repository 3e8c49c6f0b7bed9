#include "finetune/tune_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "finetune/examples.h"
#include "report/next_step.h"

namespace gpt {
namespace {

using Keys = std::vector<std::string>;

Keys keys_of(const TuneConfig& c) {
  Keys keys = {"task", "model", "epochs", "skip_bad"};
  const auto add = [&](bool used, const Keys& more) {
    if (used) keys.insert(keys.end(), more.begin(), more.end());
  };
  const bool head = find_task(c.task).has_value();
  add(c.task != "grpo", {"n_ctx"});
  add(head, {"aux_weight", "head_dropout", "long_examples"});
  add(head && c.task != "choose", {"labels", "class_weights"});
  add(!head, {"template"});
  add(c.lora_rank > 0, {"lora_rank", "lora_alpha", "lora_dropout", "rslora", "lora_targets"});
  add(c.task == "chat", {"long_conversations"});
  add(c.task == "dpo", {"beta"});
  add(c.task == "grpo", {"rollouts", "max_tokens", "temperature", "top_k", "reward"});
  add(c.task == "grpo" && c.reward == "command", {"reward_command", "reward_seconds"});
  return keys;
}

}  // namespace

nlohmann::json used_settings(const TuneConfig& config) {
  const Keys used = keys_of(config);
  const nlohmann::json all = tune_config_json(config);
  nlohmann::json settings = nlohmann::json::object();
  for (const auto& [key, value] : all.items()) {
    if (std::ranges::find(used, key) != used.end()) settings[key] = value;
  }
  return settings;
}

std::vector<ReportCommand> tune_commands(const TuneConfig& config, const std::string& out,
                                         const std::string& model, const std::string& command_line) {
  std::vector<ReportCommand> commands;
  const auto add = [&](const char* what, const std::vector<std::string>& words) {
    commands.push_back({what, shell_command(words)});
  };
  if (find_task(config.task)) {
    add("Label texts", {"gpt", "classify", model, "--data", "FILE"});
  } else if (config.lora_rank > 0) {
    add("Generate text", {"gpt", "generate", config.model, "--adapter", model, "--prompt", "..."});
  } else if (config.task == "chat") {
    add("Chat", {"gpt", "chat", model});
  } else {
    add("Generate text", {"gpt", "generate", model, "--prompt", "..."});
  }
  add("Continue training", {"gpt", "finetune", "--resume", "--out", out});
  commands.push_back({"This run", command_line});
  return commands;
}

}  // namespace gpt
