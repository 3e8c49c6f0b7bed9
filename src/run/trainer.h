#pragma once

#include <functional>
#include <string>

#include "model/objective.h"
#include "run/run.h"
#include "run/run_plan.h"
#include "train/train_config.h"

namespace gpt {

// Describes a pre-training run.
struct TrainRequest : RunOptions {
  RunConfig config;              // if vocab_size is 0, the size of the tokenizer is used
  std::string init_from;         // model to start from, or ""
  bool tokenizer_given = false;  // with init_from: true if the user specified the tokenizer in `config`
  bool repeats = false;          // restart a run of the same config that left no checkpoint in `out`
  const Objective* objective = &language_modelling();         // must outlive the run
  bool verbose = false;                                       // print all details at the start
  std::function<LossForecast(const RunPlan&)> forecast = {};  // predicts the final loss; may be empty
};

// Trains a model. Writes checkpoints, metrics and reports to the run folder, and progress to stderr (see
// Run::make). All ranks must call it with the same request. Throws Error for invalid data and for all errors
// of Run::make.
RunOutcome run_training(const TrainRequest& request, const std::function<bool()>& interrupted);

}  // namespace gpt
