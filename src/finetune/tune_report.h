#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "finetune/tune_config.h"
#include "report/report_html.h"

namespace gpt {

// The settings of tune_config_json that the task uses.
nlohmann::json used_settings(const TuneConfig& config);

// What one does with a fine-tuned model, or with the adapter, in the folder `model`.
std::vector<std::string> use_command(const TuneConfig& config, const std::string& model);
// The same, and what else one may do, for the report. resume: the command that goes on; model: the one to
// use.
std::vector<ReportCommand> tune_commands(const TuneConfig& config, const std::string& resume,
                                         const std::string& model, const std::string& command_line);

}  // namespace gpt
