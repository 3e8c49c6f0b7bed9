#pragma once

#include <functional>
#include <string>

#include "distributed/communicator.h"
#include "kernels/kernel_table.h"
#include "sweep/findings.h"

namespace gpt {

// Seconds that one training step of a run takes here, measured on a few steps with made-up data, with the
// threads that one of the processes has.
double measure_step_seconds(const SweepRun& run, Isa isa, const Communicator& processes = single_process());

// Reads FOLDER/sweep.json, with results of the runs that are finished. Throws Error.
Sweep read_sweep(const std::string& folder);
// Writes sweep.json, fit.json, sweep.svg and sweep.html.
void write_sweep(const std::string& folder, const Sweep& sweep);

// Makes every run that waits, in a folder whose FolderLock the caller holds: each in FOLDER/runs/NAME; a
// begun one goes on from its checkpoint. A run whose loss becomes NaN is marked as failed and the others go
// on. Before the first and after each run sweep.json, fit.json, sweep.svg and sweep.html are written. `note`
// gets a line before and after each run. Returns false when `interrupted` said so.
// Several processes that have read the same sweep.json share the runs: each makes its part of them by itself,
// and that of rank 0 holds the lock, writes and in the end knows all results.
struct SweepWay {
  std::string folder;
  Isa isa = best_isa();
  std::function<bool()> interrupted;
  std::function<void(const std::string&)> note;
  Communicator* processes = &single_process();
};
bool run_sweep(Sweep& sweep, const SweepWay& way);

}  // namespace gpt
