#pragma once

#include <functional>
#include <string>

#include "model/objective.h"
#include "run/run.h"
#include "run/run_plan.h"
#include "train/train_config.h"

namespace gpt {

// A pre-training run.
struct TrainRequest : RunOptions {
  RunConfig config;              // vocab_size 0: the tokenizer's
  std::string init_from;         // a model to start from, or ""
  bool tokenizer_given = false;  // with init_from: the config's tokenizer was asked for
  bool repeats = false;  // what an earlier run of this config left in `out` before its first checkpoint
  const Objective* objective = &language_modelling();         // must outlive the run
  bool verbose = false;                                       // prints every detail at the start
  std::function<LossForecast(const RunPlan&)> forecast = {};  // of the final loss, or none
};

// Trains, writing checkpoints, metrics and reports into the run folder and progress to stderr: see Run::make.
// Every process that shares the run calls it with the same request. Throws Error also for bad data.
RunOutcome run_training(const TrainRequest& request, const std::function<bool()>& interrupted);

}  // namespace gpt
