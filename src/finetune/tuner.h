#pragma once

#include <functional>
#include <string>

#include "distributed/communicator.h"
#include "finetune/tune_config.h"
#include "kernels/kernel_table.h"

namespace gpt {

struct TuneRequest {
  TuneConfig config;
  std::string out;      // the run's folder
  bool resume = false;  // continue the run in `out`, whose config this is
  // Whether the user gave these settings. Settings not given are derived from the number of examples.
  bool steps_given = false, eval_given = false, batch_given = false, micro_given = false;
  // Called with the settings of a new run once its batch size is known.
  std::function<void(TrainConfig&)> share = {};
  const KernelTable* kernels = &kernel_table(Isa::ref);
  std::shared_ptr<Device> device = std::make_shared<HostDevice>();  // of the kernels
  Communicator* processes = &single_process();                      // that share the run; must outlive it
  std::string command_line;                                         // for the report
  std::string program = "gpt";                                      // what stands before "finetune" to go on
  std::function<void()> begins = {};  // called before the first step: from then on there is work to save
};

struct TuneOutcome {
  int64_t steps_done = 0;
  bool finished = false;  // all steps done, or out of patience
  bool interrupted = false;
  bool has_best = false;       // out/best is the model to use
  bool still_falling = false;  // the loss at the end: more steps may help
};

// Fine-tunes, writing checkpoints (out/last, out/best), metrics and a report into the run's folder and
// progress to stderr. The caller holds the FolderLock of that folder. Where several processes share the run
// all call this with the same request, and that of rank 0 holds the lock, writes and speaks. `interrupted` is
// asked after every step and while evaluating; true saves and returns. Throws Error for bad examples, an
// unusable folder, a full disk, or a loss that is no number (the last good checkpoint stays).
TuneOutcome run_tuning(const TuneRequest& request, const std::function<bool()>& interrupted);

}  // namespace gpt
