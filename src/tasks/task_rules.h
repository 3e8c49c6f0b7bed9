#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tasks/task_config.h"

namespace gpt {

// The parts of a task's YAML that are lists of rules. All throw Error naming file, line and key.

DocRule read_doc_rule(const TaskFile& file, const std::string& key, const nlohmann::ordered_json& value);

// filter_list; without it one filter named "none" that takes the first answer.
std::vector<FilterRule> read_filters(const TaskFile& file, OutputType output);

// metric_list; without it those of the output type.
std::vector<MetricRule> read_metrics(const TaskFile& file, OutputType output);

// Python's float(text), for numbers that YAML 1.1 takes for text (1e-5).
std::optional<double> parse_number_text(const std::string& text);

}  // namespace gpt
