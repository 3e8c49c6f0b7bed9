#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "finetune/tune_config.h"
#include "report/report_html.h"

namespace gpt {

// The settings of tune_config_json that the task uses.
nlohmann::json used_settings(const TuneConfig& config);

// Whether a run would probably gain from more steps: a fifth of the fall of its held-out loss, and more than
// 1 % of the loss, falls between the last two evaluations. With two evaluations: 10 % of the loss. With
// fewer: the mean of the last quarter of the training losses is more than 5 % below that of the quarter
// before.
bool is_still_falling(std::span<const double> held_out, std::span<const double> training);

// What one does with a fine-tuned model, or with the adapter, in the folder `model`.
std::vector<std::string> use_command(const TuneConfig& config, const std::string& model);
// The same, for the report.
ReportCommand use_command_for_report(const TuneConfig& config, const std::string& model);

}  // namespace gpt
