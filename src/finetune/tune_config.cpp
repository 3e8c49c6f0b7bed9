#include "finetune/tune_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "finetune/examples.h"
#include "model/json_value.h"

namespace gpt {

using nlohmann::json;

json tune_config_json(const TuneConfig& config) {
  json out = json::object();
  visit_tune_keys(config, [&](const Key& key, const auto& field) { out[key.name] = field; });
  return out;
}

TuneConfig read_tune_config(const std::string& folder) {
  TuneConfig config;
  const std::string path = folder + "/finetune.json";
  const json object = read_json_file(path);
  try {
    visit_tune_keys(config, [&](const Key& key, auto& field) {
      if (object.contains(key.name)) object.at(key.name).get_to(field);
    });
  } catch (const json::exception& error) {
    fail("{}: not the settings of a fine-tuning run: {}", path, error.what());
  }
  config.run = read_run_config(folder + "/config.json");
  return config;
}

std::vector<KeyInfo> tune_keys() {
  std::vector<KeyInfo> keys;
  const TuneConfig unset;
  visit_tune_keys(unset, [&](const Key& key, const auto& field) { keys.push_back(key_info(key, field)); });
  return keys;
}

const std::vector<std::string>& task_names() {
  static const std::vector<std::string> names = tune_keys().front().choices;
  return names;
}

void check_tuning(const TuneConfig& c) {
  check_ranges(c, [](const auto& config, auto&& visit) { visit_tune_keys(config, visit); });
}

std::vector<std::string> used_keys(const TuneConfig& c) {
  std::vector<std::string> keys = {"task", "model", "epochs", "skip_bad"};
  const auto add = [&](bool used, const std::vector<std::string>& more) {
    if (used) keys.insert(keys.end(), more.begin(), more.end());
  };
  const bool head = find_task(c.task).has_value();
  add(c.task != "grpo", {"n_ctx"});
  add(head, {"aux_weight", "head_dropout", "long_examples", "labels", "class_weights"});
  add(!head, {"template"});
  add(c.lora_rank > 0, {"lora_rank", "lora_alpha", "lora_dropout", "rslora", "lora_targets"});
  add(c.task == "chat", {"long_conversations"});
  add(c.task == "dpo", {"beta"});
  add(c.task == "grpo",
      {"rollouts", "max_tokens", "temperature", "top_k", "reward", "reward_command", "reward_seconds"});
  return keys;
}

bool reads_training_key(const std::string& name) {
  static const std::vector<std::string> others = {"tokenizer",    "sampling",   "pack_documents",
                                                  "include",      "exclude",    "field",
                                                  "eval_batches", "eval_train", "sample_every"};
  return std::ranges::find(others, name) == others.end();
}

void check_used(const TuneConfig& c) {
  const json given = tune_config_json(c), unset = tune_config_json({});
  const std::vector<std::string> used = used_keys(c);
  for (const auto& [key, value] : given.items()) {
    if (value == unset[key] || std::ranges::find(used, key) != used.end()) continue;
    if (key.find("lora") != std::string::npos)
      fail_parameter(key.c_str(), "an adapter is trained with `lora_rank` N; without it all weights are");
    fail_parameter(key.c_str(), "`task` {} does not read it; leave it out", c.task);
  }
  if (c.lora_rank > 0 && !c.train().freeze.empty())
    fail_parameter("freeze", "with `lora_rank` the model is frozen as a whole; leave it out");
}

double tuning_rate_scale(int64_t n_embd) {
  return static_cast<double>(kRateWidth) / static_cast<double>(n_embd);
}

TuneLength fitting_length(int64_t samples, const BatchSizes& sizes, double epochs) {
  constexpr double kEpochs = 3, kMostEpochs = 10;
  TuneLength length{.batch_size = sizes.unit, .epochs = epochs > 0 ? epochs : kEpochs};
  const double all = length.epochs * static_cast<double>(samples);
  const auto steps_with = [&](int64_t batch) { return all / static_cast<double>(batch); };
  while (2 * length.batch_size <= sizes.largest &&
         (length.batch_size < sizes.smallest || steps_with(2 * length.batch_size) >= kFewestSteps))
    length.batch_size *= 2;
  if (epochs > 0) return length;
  const double wanted =
      std::ceil(static_cast<double>(kFewestSteps * length.batch_size) / static_cast<double>(samples));
  length.epochs = std::clamp(wanted, kEpochs, kMostEpochs);
  return length;
}

json tuning_defaults(const std::string& task, bool adapter, int64_t n_embd) {
  json defaults = {{"lr", 6.25e-5},     {"min_lr", 0},     {"schedule", "linear"}, {"warmup", 0},
                   {"batch_size", 32},  {"beta1", 0.9},    {"beta2", 0.999},       {"weight_decay", 0.01},
                   {"sample_every", 0}, {"save_every", 0}, {"log_every", 10},      {"val_fraction", 0.1}};
  // Dropout is disabled, because the log-probabilities are compared with those of a pass without dropout.
  if (task == "dpo" || task == "grpo")
    defaults.update({{"lr", 1e-5}, {"beta2", 0.95}, {"weight_decay", 0}, {"dropout", 0}});
  if (task == "dpo") defaults["batch_size"] = 16;
  if (task == "grpo") defaults.update({{"batch_size", 128}, {"schedule", "constant"}});
  // The learning rate of adapters is this many times the learning rate for all weights (Schulman et al.
  // 2025).
  constexpr double kAdapter = 10;
  const double rate = defaults["lr"].get<double>() * tuning_rate_scale(n_embd) * (adapter ? kAdapter : 1);
  // Rounds the learning rate to a number that is easy to read and to type.
  defaults["lr"] = std::stod(fmt::format("{:.3g}", rate));
  return defaults;
}

}  // namespace gpt
