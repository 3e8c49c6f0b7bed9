#include "tasks/task_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/parse.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "tasks/native_functions.h"
#include "tasks/python_regex.h"
#include "tasks/yaml.h"

namespace gpt {
namespace {

using nlohmann::ordered_json;

struct KnownMetric {
  std::string name, aggregation;
  bool higher_is_better;
  std::vector<OutputType> outputs;
};

const std::vector<KnownMetric>& known_metrics() {
  constexpr auto choice = OutputType::multiple_choice, likelihood = OutputType::loglikelihood,
                 rolling = OutputType::loglikelihood_rolling, generate = OutputType::generate_until;
  static const std::vector<KnownMetric> metrics = {
      {"acc", "mean", true, {choice, likelihood}},
      {"acc_norm", "mean", true, {choice}},
      {"acc_bytes", "mean", true, {choice}},
      {"acc_mutual_info", "mean", true, {choice}},
      {"exact_match", "mean", true, {choice, generate}},
      {"f1", "f1", true, {choice}},
      {"mcc", "matthews_corrcoef", true, {choice}},
      {"brier_score", "brier_score", false, {choice}},
      {"perplexity", "perplexity", false, {likelihood}},
      {"word_perplexity", "weighted_perplexity", false, {rolling}},
      {"byte_perplexity", "weighted_perplexity", false, {rolling}},
      {"bits_per_byte", "bits_per_byte", false, {rolling}}};
  return metrics;
}

std::vector<std::string> default_metrics(OutputType output) {
  switch (output) {
    case OutputType::multiple_choice:
      return {"acc", "acc_norm"};
    case OutputType::loglikelihood:
      return {"perplexity", "acc"};
    case OutputType::loglikelihood_rolling:
      return {"word_perplexity", "byte_perplexity", "bits_per_byte"};
    case OutputType::generate_until:
      return {"exact_match"};
  }
  return {};
}

MetricRule known_metric(const TaskFile& file, const std::string& name, OutputType output) {
  const KnownMetric* known = find_by(known_metrics(), &KnownMetric::name, name);
  if (known == nullptr) {
    const auto names = transformed(known_metrics(), &KnownMetric::name);
    file.refuse("metric_list", fmt::format("one of {}", fmt::join(names, ", ")),
                name + did_you_mean(name, names));
  }
  if (std::find(known->outputs.begin(), known->outputs.end(), output) == known->outputs.end())
    file.refuse("metric_list", fmt::format("a metric for {}", output_type_name(output)), name);
  return {.name = name, .aggregation = known->aggregation, .higher_is_better = known->higher_is_better};
}

bool flag(const TaskFile& file, const char* list, const std::string& key, const ordered_json& value) {
  if (!value.is_boolean()) file.refuse(list, key + " to be true or false", shown_value(value));
  return value.get<bool>();
}

std::string text_of(const TaskFile& file, const char* list, const std::string& key,
                    const ordered_json& value) {
  if (!value.is_string()) file.refuse(list, key + " to be a string", shown_value(value));
  return value.get<std::string>();
}

MetricRule read_metric(const TaskFile& file, const ordered_json& entry, OutputType output) {
  if (!entry.is_object() || !entry.contains("metric"))
    file.refuse("metric_list", "maps with the key metric", shown_value(entry));
  MetricRule rule = known_metric(file, text_of(file, "metric_list", "metric", entry["metric"]), output);
  for (const auto& [key, value] : entry.items()) {
    if (key == "metric" || value.is_null()) continue;
    if (key == "aggregation") {
      const std::string name = text_of(file, "metric_list", key, value);
      const bool mean = rule.aggregation == "mean" && name == "median";
      if (name != rule.aggregation && !mean)
        file.refuse("metric_list", fmt::format("the aggregation {} for {}", rule.aggregation, rule.name),
                    name);
      rule.aggregation = name;
    } else if (key == "higher_is_better") {
      rule.higher_is_better = flag(file, "metric_list", key, value);
    } else if (key == "hf_evaluate" && value == false) {
      continue;
    } else if (rule.name == "exact_match" && key == "regexes_to_ignore") {
      for (const ordered_json& pattern : as_list(value)) {
        rule.regexes_to_ignore.push_back(text_of(file, "metric_list", key, pattern));
        PythonRegex{rule.regexes_to_ignore.back()};
      }
    } else if (rule.name == "exact_match" && key == "ignore_case") {
      rule.ignore_case = flag(file, "metric_list", key, value);
    } else if (rule.name == "exact_match" && key == "ignore_punctuation") {
      rule.ignore_punctuation = flag(file, "metric_list", key, value);
    } else if (rule.name == "exact_match" && key == "ignore_numbers") {
      rule.ignore_numbers = flag(file, "metric_list", key, value);
    } else {
      file.refuse("metric_list", "known settings of " + rule.name, shown_value(ordered_json{{key, value}}));
    }
  }
  return rule;
}

void read_mapping(const TaskFile& file, const ordered_json& value, FilterStep& step) {
  if (!value.is_object()) file.refuse("filter_list", "mapping_dict to be a map", shown_value(value));
  for (const auto& [from, to] : value.items())
    step.mapping[from] = text_of(file, "filter_list", "mapping_dict", to);
}

FilterStep read_step(const TaskFile& file, const ordered_json& entry) {
  static const std::vector<std::string> functions = {
      "regex",     "take_first", "take_first_k", "majority_vote", "remove_whitespace",
      "lowercase", "uppercase",  "map"};
  if (!entry.is_object() || !entry.contains("function"))
    file.refuse("filter_list", "filters with the key function", shown_value(entry));
  FilterStep step{.function = text_of(file, "filter_list", "function", entry["function"])};
  if (std::find(functions.begin(), functions.end(), step.function) == functions.end())
    file.refuse("filter_list", "a known filter", step.function + did_you_mean(step.function, functions));
  if (step.function == "regex") step.regex_pattern = R"(#### (\-?[0-9\.\,]+))";
  for (const auto& item : entry.items()) {
    const std::string& key = item.key();
    const ordered_json& value = item.value();
    const auto integer = [&] {
      if (!value.is_number_integer())
        file.refuse("filter_list", key + " to be an integer", shown_value(value));
      return value.get<int64_t>();
    };
    if (key == "function") continue;
    if (step.function == "regex" && key == "regex_pattern") {
      step.regex_pattern = text_of(file, "filter_list", key, value);
    } else if (step.function == "regex" && key == "group_select") {
      step.group_select = integer();
    } else if (step.function == "regex" && key == "fallback") {
      step.fallback = text_of(file, "filter_list", key, value);
    } else if (step.function == "take_first_k" && key == "k") {
      step.k = integer();
    } else if (step.function == "map" && key == "mapping_dict") {
      read_mapping(file, value, step);
    } else if (step.function == "map" && key == "default_value") {
      if (!value.is_null()) step.default_value = text_of(file, "filter_list", key, value);
    } else {
      file.refuse("filter_list", "known settings of " + step.function,
                  shown_value(ordered_json{{key, value}}));
    }
  }
  if (step.function == "regex") PythonRegex{step.regex_pattern};
  if (step.function == "take_first_k" && step.k < 1)
    file.refuse("filter_list", "k of at least 1 for take_first_k", std::to_string(step.k));
  return step;
}

}  // namespace

DocRule read_doc_rule(const TaskFile& file, const std::string& key, const ordered_json& value) {
  DocRule rule;
  if (value.is_string()) {
    rule = {.kind = DocRule::Kind::text, .text = value.get<std::string>()};
  } else if (value.is_number_integer()) {
    rule = {.kind = DocRule::Kind::number, .number = value.get<int64_t>()};
  } else if (value.is_object() && value.contains(kYamlFunction)) {
    rule = {.kind = DocRule::Kind::function, .text = value[kYamlFunction].get<std::string>()};
    require_native_function(rule.text, NativeUse::value, file, key);
  } else if (value.is_array() || value.is_object()) {  // a map is read as the list of its values
    rule.kind = DocRule::Kind::list;
    for (const auto& [name, element] : value.items())
      rule.list.push_back(text_of(file, key.c_str(), "every element", element));
  } else {
    file.refuse(key, "a template, a field name or a list of strings", shown_value(value));
  }
  return rule;
}

std::vector<FilterRule> read_filters(const TaskFile& file, OutputType output) {
  const ordered_json* list = file.find("filter_list");
  if (list == nullptr) return {{.name = "none", .steps = {{.function = "take_first"}}}};
  if (!list->is_array()) file.refuse("filter_list", "a list", shown_value(*list));
  std::vector<FilterRule> filters;
  for (const ordered_json& entry : *list) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("filter") ||
        !entry["filter"].is_array())
      file.refuse("filter_list", "maps with the keys \"name\" and \"filter\"", shown_value(entry));
    FilterRule rule{.name = text_of(file, "filter_list", "name", entry["name"]), .steps = {}};
    if (find_by(filters, &FilterRule::name, rule.name) != nullptr)
      file.refuse("filter_list", "a different name for each filter", rule.name);
    for (const ordered_json& step : entry["filter"])
      rule.steps.push_back(read_step(file, step));
    const bool plain = rule.steps.size() == 1 && rule.steps[0].function == "take_first";
    if (output != OutputType::generate_until && !plain)
      file.refuse("filter_list", fmt::format("only take_first for {}", output_type_name(output)),
                  shown_value(entry));
    filters.push_back(std::move(rule));
  }
  if (filters.empty()) file.refuse("filter_list", "at least one filter", "none");
  return filters;
}

std::vector<MetricRule> read_metrics(const TaskFile& file, OutputType output) {
  const ordered_json* list = file.find("metric_list");
  if (list == nullptr) {
    return transformed(default_metrics(output),
                       [&](const std::string& name) { return known_metric(file, name, output); });
  }
  if (!list->is_array() || list->empty()) file.refuse("metric_list", "a list of metrics", shown_value(*list));
  return transformed(*list, [&](const ordered_json& entry) { return read_metric(file, entry, output); });
}

std::optional<double> parse_number_text(const std::string& text) {
  return parse_number<double>(text);
}

}  // namespace gpt
