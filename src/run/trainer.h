#pragma once

#include <functional>
#include <memory>
#include <string>

#include "distributed/communicator.h"
#include "kernels/kernel_table.h"
#include "model/objective.h"
#include "run/run_plan.h"
#include "train/train_config.h"

namespace gpt {

struct TrainRequest {
  RunConfig config;              // vocab_size 0: the tokenizer's
  std::string out;               // the run folder
  std::string init_from;         // a model to start from, or ""
  bool tokenizer_given = false;  // with init_from: the config's tokenizer was asked for
  bool resume = false;           // continue the run in `out`, whose config this is
  bool repeats = false;  // what an earlier run of this config left in `out` before its first checkpoint
  const Objective* objective = &language_modelling();  // must outlive the run
  const KernelTable* kernels = &kernel_table(Isa::ref);
  std::shared_ptr<Device> device = std::make_shared<HostDevice>();  // of the kernels
  Communicator* processes = &single_process();                      // that share the run; must outlive it
  std::string command_line;                                         // for the report
  std::string program = "gpt";                                      // what stands before "train" to go on
  bool brief = false;                                         // says only how far it is: for one of many runs
  bool silent = false;                                        // says nothing: beside a run that speaks
  bool verbose = false;                                       // says everything at the start
  std::function<LossForecast(const RunPlan&)> forecast = {};  // of the final loss, or none
  std::function<void()> begins = {};  // called before the first step: from then on there is work to save
};

struct TrainOutcome {
  int64_t steps_done = 0;
  bool finished = false;  // all steps done, or out of patience (and not stopped by stop_after)
  bool interrupted = false;
  double best_val_loss = 0;
};

// Trains, writing checkpoints, metrics and reports into the run folder and progress to stderr.
// The caller holds the FolderLock of that folder. Where several processes share the run all call this with
// the same request, and that of rank 0 holds the lock, writes and speaks. `interrupted` is asked after every
// step, and while evaluating and sampling; true finishes the step, saves and returns, and what was cut short
// is made when the run goes on. Throws Error for bad data, an unusable folder, a full disk, or a loss or
// gradient that is NaN or infinite (the last good checkpoint stays).
TrainOutcome run_training(const TrainRequest& request, const std::function<bool()>& interrupted);

}  // namespace gpt
