#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "finetune/tune_config.h"
#include "report/report_html.h"

namespace gpt {

// Returns the settings of tune_config_json that the task uses.
nlohmann::json used_settings(const TuneConfig& config);

// Returns true if a run would probably benefit from more steps, because its loss is still falling. With more
// than two evaluations, the held-out loss must have fallen by more than 1 % between the last two evaluations,
// and this decrease must be more than a fifth of the total decrease. With two evaluations, the held-out loss
// must have fallen by more than 10 %. With fewer evaluations, the mean of the last quarter of the training
// losses must be more than 5 % below the mean of the quarter before.
bool is_still_falling(std::span<const double> held_out, std::span<const double> training);

// Returns the command that uses the fine-tuned model or the adapter in the folder `model`.
std::vector<std::string> use_command(const TuneConfig& config, const std::string& model);
// Like use_command, but formatted for the report.
ReportCommand use_command_for_report(const TuneConfig& config, const std::string& model);

}  // namespace gpt
