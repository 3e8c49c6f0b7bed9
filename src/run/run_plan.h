#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/model_counts.h"
#include "report/report_html.h"
#include "run/adapter_plan.h"

namespace gpt {

// The validation loss that a law fitted to other runs gives for a run (gpt sweep), in nats per token.
struct LossForecast {
  double parameters = 0, tokens = 0;  // of the run
  double loss = 0;
  // The size and tokens for which the law gives the lowest loss with the run's operations; 0: it names none.
  double best_parameters = 0, best_tokens = 0, best_loss = 0;
  std::string best_flags;  // a shape of about that size, and its steps
  std::string warning;     // why not to rely on it, or ""
};

// Everything that is known of a run before it is made: what `gpt plan` shows, and plan.json of a run folder.
struct RunPlan {
  RunPlan(const PlanSubject& subject, int64_t train_tokens);
  bool fits() const { return memory.total() <= available; }

  PlanSubject subject;
  ModelCounts counts;
  int64_t tokens, step_tokens;  // of the run, of a step
  int64_t train_tokens;         // of the text
  RunMemory memory;
  int64_t available = 0;  // bytes
  std::vector<RunFit> fits_with;
  double peak_flops = 0;          // products, per second
  std::optional<RunRates> rates;  // measured, where it fits
  std::optional<LossForecast> forecast;
  std::optional<AdapterPlan> adapter;  // that an adapter is trained instead

  double tokens_per_parameter() const;
  int64_t optimal_tokens() const { return kOptimalTokensPerParameter * counts.total; }
  int64_t optimal_steps() const { return (optimal_tokens() + step_tokens - 1) / step_tokens; }
  double flops() const;
  std::optional<RunTime> time() const;  // from the rates
};

nlohmann::json run_plan_json(const RunPlan& plan);

// Takes rates and forecast from what run_plan_json wrote for the same run: of the same config, stop_after
// aside. False where that is another run. Throws Error naming `source` when it is no plan.
bool take_plan(RunPlan& plan, const nlohmann::json& written, const std::string& source);

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
