#include "finetune/tune_config.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace gpt {

using nlohmann::json;

json tune_config_json(const TuneConfig& config) {
  json out = json::object();
  visit_tune_keys(config, [&](const char* key, const auto& field, const char*) { out[key] = field; });
  return out;
}

TuneConfig read_tune_config(const std::string& folder) {
  TuneConfig config;
  const std::string path = folder + "/finetune.json";
  const json object = read_json_file(path);
  try {
    visit_tune_keys(config, [&](const char* key, auto& field, const char*) {
      if (object.contains(key)) object.at(key).get_to(field);
    });
  } catch (const json::exception& error) {
    fail("{}: not the settings of a fine-tuning run: {}", path, error.what());
  }
  config.run = read_run_config(folder + "/config.json");
  return config;
}

const std::vector<std::string>& task_names() {
  static const std::vector<std::string> names = {"classify", "entail", "similar", "choose",
                                                 "chat",     "dpo",    "grpo"};
  return names;
}

json tuning_defaults(const std::string& task) {
  json defaults = {{"lr", 6.25e-5},     {"min_lr", 0},     {"schedule", "linear"}, {"warmup", 0},
                   {"batch_size", 32},  {"beta1", 0.9},    {"beta2", 0.999},       {"weight_decay", 0.01},
                   {"sample_every", 0}, {"save_every", 0}, {"log_every", 10},      {"val_fraction", 0.1}};
  if (task == "dpo")
    defaults.update({{"lr", 1e-5}, {"beta2", 0.95}, {"weight_decay", 0}, {"batch_size", 16}});
  if (task == "grpo")
    defaults.update(
        {{"lr", 1e-5}, {"beta2", 0.95}, {"weight_decay", 0}, {"batch_size", 128}, {"schedule", "constant"}});
  return defaults;
}

}  // namespace gpt
