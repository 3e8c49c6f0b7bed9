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
  RunConfig config;              // vocab_size 0: use the size of the tokenizer
  std::string init_from;         // a model to start from, or ""
  bool tokenizer_given = false;  // with init_from: the user named the tokenizer in `config`
  bool repeats = false;          // restarts a run of the same config that left no checkpoint in `out`
  const Objective* objective = &language_modelling();         // must outlive the run
  bool verbose = false;                                       // prints every detail at the start
  std::function<LossForecast(const RunPlan&)> forecast = {};  // predicts the final loss; may be empty
};

// Trains a model. Writes checkpoints, metrics and reports to the run folder and progress to stderr (see
// Run::make). Every rank calls it with the same request. Also throws Error for invalid data.
RunOutcome run_training(const TrainRequest& request, const std::function<bool()>& interrupted);

}  // namespace gpt
