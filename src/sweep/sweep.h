#pragma once

#include <functional>
#include <string>

#include "kernels/kernel_table.h"
#include "sweep/findings.h"

namespace gpt {

// Seconds that one training step of a run takes here, measured on a few steps with made-up data.
double measure_step_seconds(const SweepRun& run, Isa isa);

// Reads FOLDER/sweep.json, with results of the runs that are finished. Throws Error.
Sweep read_sweep(const std::string& folder);

// Makes every run that waits, in a folder whose FolderLock the caller holds: each in FOLDER/runs/NAME; a
// begun one goes on from its checkpoint. A run whose loss becomes NaN is marked as failed and the others go
// on. Before the first and after each run sweep.json, fit.json, sweep.svg and sweep.html are written. `note`
// gets a line before and after each run. Returns false when `interrupted` said so.
struct SweepWay {
  std::string folder;
  Isa isa = Isa::ref;
  std::function<bool()> interrupted;
  std::function<void(const std::string&)> note;
};
bool run_sweep(Sweep& sweep, const SweepWay& way);

}  // namespace gpt
