#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "config_flags.h"
#include "run/advice.h"
#include "run/run_plan.h"

namespace gpt {

// A plan as tables for people, and what run_advice says of it.
std::string plan_text(const RunPlan& plan, const std::vector<Advice>& advice);

// A preset as it would be trained on a text.
struct Proposal {
  std::string preset;
  int64_t parameters = 0;
  int64_t steps = 0;   // that pass kPasses times over the text
  double seconds = 0;  // at least: at the rate of large products here
};

// Which preset fits a text: the largest one that has kOptimalTokensPerParameter tokens per parameter when the
// text is repeated kPasses times (which is nearly as good as new text: Muennighoff et al. 2023); the smallest
// where none does. The speed of the machine has no part in it.
struct Proposals {
  static constexpr int64_t kPasses = 4;
  int64_t train_tokens = 0;
  std::vector<Proposal> all;  // the smallest first
  size_t chosen = 0;          // index
};
Proposals propose_presets(const ConfigFlags& flags);

// The chosen preset and its steps, for a run that names no model; says which it is.
TrainSources recommended_sources(const ConfigFlags& flags);

// The largest of the proposed presets whose run fits into the memory of a plan that does not fit itself; ""
// where none does, or where flags give it a shape that is none.
std::string largest_preset(const ConfigFlags& flags, const RunPlan& plan);

std::string proposals_text(const Proposals& proposals);
nlohmann::json proposals_json(const Proposals& proposals);

}  // namespace gpt
