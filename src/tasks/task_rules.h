#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tasks/task_config.h"

namespace gpt {

// These functions read rules from the YAML of a task: document rules, filters and metrics. All functions
// throw Error naming file, line and key.

DocRule read_doc_rule(const TaskFile& file, const std::string& key, const nlohmann::ordered_json& value);

// Reads filter_list. Without the key, returns one filter named "none" that takes the first response.
std::vector<FilterRule> read_filters(const TaskFile& file, OutputType output);

// Reads metric_list. Without the key, returns the default metrics of the output type.
std::vector<MetricRule> read_metrics(const TaskFile& file, OutputType output);

// Parses a number like Python's float(text). YAML 1.1 reads numbers such as 1e-5 as text.
std::optional<double> parse_number_text(const std::string& text);

}  // namespace gpt
