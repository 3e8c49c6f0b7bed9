#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "config_flags.h"
#include "run/advice.h"
#include "run/run_plan.h"

namespace gpt {

// Formats a plan as tables, followed by the advice.
std::string plan_text(const RunPlan& plan, const std::vector<Advice>& advice);

// A preset with the settings to train it on a text.
struct Proposal {
  std::string preset;
  int64_t parameters = 0;
  int64_t steps = 0;   // number of steps for kPasses passes over the text
  double seconds = 0;  // lower bound of the training time, at this machine's peak matmul throughput
};

// Presets for training on a text, and the recommended one among them. The chosen preset is the largest one
// with kOptimalTokensPerParameter tokens per parameter when the text is repeated kPasses times, or the
// smallest one if there is none. Repeating a text up to 4 times is nearly as good as new text (Muennighoff et
// al. 2023). The speed of the machine has no influence.
struct Proposals {
  static constexpr int64_t kPasses = 4;
  int64_t train_tokens = 0;
  std::vector<Proposal> all;  // smallest preset first
  size_t chosen = 0;          // index in `all`
};
Proposals propose_presets(const ConfigFlags& flags);

// Returns the recommended preset and its number of steps, for a run that names no model. Prints the choice.
TrainSources recommended_sources(const ConfigFlags& flags);

// Returns the largest of the proposed presets whose run fits into the memory of a plan that does not fit
// itself. Returns "" if none fits or if flags make the shapes of all presets invalid.
std::string largest_preset(const ConfigFlags& flags, const RunPlan& plan);

std::string proposals_text(const Proposals& proposals);
nlohmann::json proposals_json(const Proposals& proposals);

}  // namespace gpt
