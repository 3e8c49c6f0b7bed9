#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/model_counts.h"
#include "report/report_html.h"
#include "run/adapter_plan.h"

namespace gpt {

// Stores the predicted validation loss of a run in nats per token. The prediction comes from a scaling law
// fitted to other runs (gpt sweep).
struct LossForecast {
  double parameters = 0, tokens = 0;  // size and training tokens of the run
  double loss = 0;                    // predicted loss
  // Model size and number of tokens with the lowest predicted loss for the FLOPs of the run. 0: unknown.
  double best_parameters = 0, best_tokens = 0, best_loss = 0;
  std::string best_flags;  // flags for a model of about that size, and for its steps
  std::string warning;     // reason why the prediction is unreliable, or ""
};

// Stores the estimates for a run, as shown by `gpt plan` and saved in plan.json of the run folder.
struct RunPlan {
  RunPlan(const PlanSubject& subject, int64_t train_tokens);
  bool fits() const { return memory.total() <= available; }

  PlanSubject subject;
  ModelCounts counts;
  int64_t tokens, step_tokens;  // tokens of the run and of a step
  int64_t train_tokens;         // tokens of the training text
  RunMemory memory;
  int64_t available = 0;  // available memory in bytes
  std::vector<RunFit> fits_with;
  double peak_flops = 0;          // peak matmul throughput in FLOP/s
  std::optional<RunRates> rates;  // measured rates, if the run fits into memory
  std::optional<LossForecast> forecast;
  std::optional<AdapterPlan> adapter;  // estimate for training an adapter instead

  double tokens_per_parameter() const;
  int64_t optimal_tokens() const { return kOptimalTokensPerParameter * counts.total; }
  int64_t optimal_steps() const { return (optimal_tokens() + step_tokens - 1) / step_tokens; }
  double flops() const;
  std::optional<RunTime> time() const;  // computed from `rates`
};

nlohmann::json run_plan_json(const RunPlan& plan);

// Copies the rates and the forecast from a plan that run_plan_json wrote for the same config. stop_after and
// patience may differ. Returns false if the config differs. Throws Error naming `source` if `written` is not
// a plan.
bool take_plan(RunPlan& plan, const nlohmann::json& written, const std::string& source);

// Stores the actual values of a run so far.
struct RunFact {
  int64_t steps = 0, tokens = 0;
  RunTime time = {};  // time of each part; `step` is not used
  int64_t peak_bytes = 0;
  std::optional<double> first_loss, val_loss;  // training loss of step 1, and newest validation loss
};

// Maintains the plan while a run is running: plan.json in the run folder, and the plan section of the report.
class PlanKeeper {
 public:
  // Reads measured rates from plan.json in the folder if the file was written by `gpt plan` or by an earlier
  // part of the same run. If plan.json cannot be used, `note` is set to the reason.
  PlanKeeper(std::string folder, RunPlan plan, std::string& note);

  // Called after every step of this process. If no rates were measured before, the first steps determine the
  // rates. Step 1 is excluded, because it touches all memory for the first time. `setup` is the time in
  // seconds before the first step.
  void step(double seconds, double setup);

  const RunPlan& plan() const { return plan_; }
  void write() const;

 private:
  std::string path_;
  RunPlan plan_;
  std::vector<double> first_steps_;
};

// Returns the report section that compares the estimate with the actual run: parameters, tokens, operations,
// memory, times and losses.
ReportSection plan_section(const RunPlan& plan, const RunFact& fact);

}  // namespace gpt
