#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/model_counts.h"
#include "train/plan.h"

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

}  // namespace gpt
