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

}  // namespace gpt
