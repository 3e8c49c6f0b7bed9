#pragma once

#include <functional>
#include <string>

#include "distributed/communicator.h"
#include "kernels/kernel_table.h"
#include "sweep/findings.h"

namespace gpt {

// Measures the duration of a training step of a run on this machine, in seconds. Runs a few steps with
// generated data. Uses the same number of threads as a process of the sweep.
double measure_step_seconds(const SweepRun& run, Isa isa, const Communicator& processes = single_process());

// Reads FOLDER/sweep.json and the results of all finished runs. Throws Error.
Sweep read_sweep(const std::string& folder);
// Writes sweep.json, fit.json, sweep.svg and sweep.html.
void write_sweep(const std::string& folder, const Sweep& sweep);

// Options of run_sweep. The function executes all pending runs of a sweep, each in FOLDER/runs/NAME. A run
// that was started before is resumed from its checkpoint. A run whose loss becomes NaN is marked as failed,
// and the sweep continues. Before the first run and after each run, sweep.json, fit.json, sweep.svg and
// sweep.html are written. run_sweep calls `note` with a line before and after each run. It returns false if
// `interrupted` returned true.
//
// Several processes that have read the same sweep.json divide the runs among themselves. Each process
// executes its own runs independently. Only rank 0 writes the files of the sweep, and its caller must hold
// the FolderLock of the folder. At the end, rank 0 has the results of all runs.
struct SweepWay {
  std::string folder;
  Isa isa = best_isa();
  std::function<bool()> interrupted;
  std::function<void(const std::string&)> note;
  Communicator* processes = &single_process();
};
bool run_sweep(Sweep& sweep, const SweepWay& way);

}  // namespace gpt
