#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/report_html.h"
#include "train/run_plan.h"

namespace gpt {

// What a run has taken and given so far.
struct RunFact {
  int64_t steps = 0, tokens = 0;
  RunTime time = {};  // of its parts; `step` is not used
  int64_t peak_bytes = 0;
  std::optional<double> first_loss, val_loss;  // of training at step 1; the newest one
};

// Keeps the plan of a run that is being made: plan.json in its folder, and the section of its report.
class PlanKeeper {
 public:
  // Takes over what plan.json in the folder says of the same run: written by `gpt plan`, or before the run
  // was resumed. `note` says why that was not possible, or stays empty.
  PlanKeeper(std::string folder, RunPlan plan, std::string& note);

  // Told of every step of this process. Where nothing was measured before the run, its first steps give the
  // rates: a few more than one, which touches all memory. setup: seconds before it.
  void step(double seconds, double setup);

  const RunPlan& plan() const { return plan_; }
  void write() const;

 private:
  std::string path_;
  RunPlan plan_;
  std::vector<double> first_steps_;
};

// "Plan against fact": parameters, tokens, operations, memory, times, losses.
ReportSection plan_section(const RunPlan& plan, const RunFact& fact);

}  // namespace gpt
