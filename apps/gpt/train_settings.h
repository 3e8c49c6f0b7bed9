#pragma once

#include <string>

#include "config_flags.h"

namespace gpt {

// Where the settings of a new run come from, besides environment and flags; "" for what is not given.
struct TrainSources {
  std::string preset, config, init_from;
};

// The settings of a new run, later ones winning: preset, the model of init_from, config file, environment,
// flags. The vocabulary may be left to the tokenizer (0).
RunConfig new_run_config(const TrainSources& sources, const ConfigFlags& flags);

// Whether anything says how large a model to make: a preset, a file, a model, or flags for layers or width.
bool names_model(const TrainSources& sources, const ConfigFlags& flags);

// Throws where the text or the tokenizer of a new run is not there, and says how one names it. The tokenizer
// of init_from, where there is one, comes before the named one.
void check_sources(const TrainConfig& config, const std::string& init_from);

}  // namespace gpt
