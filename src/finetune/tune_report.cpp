#include "finetune/tune_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
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

std::vector<std::string> use_command(const TuneConfig& config, const std::string& model) {
  if (find_task(config.task)) return {"gpt", "classify", model, "--data", config.train().data[0]};
  const bool chats = config.task == "chat" || path_exists(model + "/chat_template.jinja") ||
                     path_exists(model + "/last/chat_template.jinja");
  std::vector<std::string> words = {"gpt", chats ? "chat" : "generate"};
  if (config.lora_rank > 0) {
    words.insert(words.end(), {config.model, "--adapter", model});
  } else {
    words.push_back(model);
  }
  if (!chats) words.insert(words.end(), {"--prompt", "..."});
  return words;
}

std::vector<ReportCommand> tune_commands(const TuneConfig& config, const std::string& resume,
                                         const std::string& model, const std::string& command_line) {
  std::vector<ReportCommand> commands;
  const auto add = [&](const char* what, const std::vector<std::string>& words) {
    commands.push_back({what, shell_command(words)});
  };
  add(find_task(config.task) ? "Label texts" : "Use the model", use_command(config, model));
  commands.push_back({"Continue training", resume});
  commands.push_back({"This run", command_line});
  return commands;
}

}  // namespace gpt
