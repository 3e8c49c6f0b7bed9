#pragma once

#include <functional>

#include "finetune/tune_config.h"
#include "run/run.h"

namespace gpt {

// Describes a fine-tuning run.
struct TuneRequest : RunOptions {
  TuneConfig config;
  // True if the user has set these settings. Otherwise the settings are derived from the number of examples.
  bool steps_given = false, eval_given = false, batch_given = false, micro_given = false;
  // Called with the settings of a new run after its batch size is chosen.
  std::function<void(TrainConfig&)> share = {};
};

// Fine-tunes a model. Writes checkpoints (out/last, out/best), metrics and a report to the run folder, and
// progress to stderr (see Run::make). All ranks must call it with the same request. Throws Error for invalid
// examples and for all errors of Run::make.
RunOutcome run_tuning(const TuneRequest& request, const std::function<bool()>& interrupted);

}  // namespace gpt
