#pragma once

#include <functional>

#include "finetune/tune_config.h"
#include "run/run.h"

namespace gpt {

// A fine-tuning run.
struct TuneRequest : RunOptions {
  TuneConfig config;
  // Whether the user gave these settings. Settings not given are derived from the number of examples.
  bool steps_given = false, eval_given = false, batch_given = false, micro_given = false;
  // Called with the settings of a new run once its batch size is known.
  std::function<void(TrainConfig&)> share = {};
};

// Fine-tunes, writing checkpoints (out/last, out/best), metrics and a report into the run's folder and
// progress to stderr: see Run::make. Every process that shares the run calls it with the same request. Throws
// Error also for bad examples.
RunOutcome run_tuning(const TuneRequest& request, const std::function<bool()>& interrupted);

}  // namespace gpt
