#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/model_counts.h"
#include "train/plan.h"

namespace gpt {

// Everything that `gpt plan` found out.
struct PlanReport {
  PlanReport(const PlanSubject& subject, int64_t train_tokens);
  bool fits() const { return memory.total() <= available; }

  PlanSubject subject;
  ModelCounts counts;
  int64_t tokens, step_tokens;  // of the run, of a step
  int64_t train_tokens;         // of the text
  RunMemory memory;
  int64_t available = 0;  // bytes
  std::vector<RunFit> fits_with;
  double peak_flops = 0;        // products, per second
  std::optional<RunTime> time;  // measured, where it fits

  double tokens_per_parameter() const;
  int64_t optimal_tokens() const { return kOptimalTokensPerParameter * counts.total; }
  int64_t optimal_steps() const { return (optimal_tokens() + step_tokens - 1) / step_tokens; }
  double flops() const;
};

std::string plan_text(const PlanReport& report);
nlohmann::json plan_json(const PlanReport& report);

}  // namespace gpt
