#include "train_settings.h"

#include <algorithm>

#include "base/error.h"
#include "base/path_kind.h"
#include "model/model_files.h"
#include "model/presets.h"
#include "options.h"
#include "train/run_data.h"

namespace gpt {

RunConfig new_run_config(const TrainSources& sources, const ConfigFlags& flags) {
  Settings settings;
  if (!sources.preset.empty()) settings.add_preset(sources.preset);
  if (!sources.init_from.empty()) {
    settings.add_model(LoadedModel(sources.init_from).model().config);
  }
  if (!sources.config.empty()) settings.add_file(sources.config);
  flags.apply_environment(settings);
  flags.apply_flags(settings);
  if (!sources.preset.empty() && sources.init_from.empty())
    settings.forget_preset("vocab_size");  // the tokenizer decides
  return settings.resolve();
}

bool names_model(const TrainSources& sources, const ConfigFlags& flags) {
  if (!sources.preset.empty() || !sources.config.empty() || !sources.init_from.empty()) return true;
  const std::vector<std::string> given = flags.given();
  return std::any_of(given.begin(), given.end(),
                     [](const std::string& key) { return key == "n_layer" || key == "n_embd"; });
}

void check_sources(const TrainConfig& config, const std::string& init_from) {
  for (const auto* entries : {&config.data, &config.val_data}) {
    for (const std::string& entry : *entries) {
      const std::string name = source_name(entry);
      if (!is_preset(name) || path_exists(name)) continue;
      fail_usage(
          "data \"{}\": no such file or folder, but a preset of this name: give --preset {}, and the text as "
          "files, folders or token shards, or tales",
          name, name);
    }
  }
  if (init_from.empty()) require_tokenizer(config.tokenizer);
}

}  // namespace gpt
