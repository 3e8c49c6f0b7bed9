#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tasks/task_file.h"

namespace gpt {

// The output of the model that a task needs for each document.
enum class OutputType {
  multiple_choice,        // the most likely of several continuations
  loglikelihood,          // the likelihood of a continuation, and whether it is the greedy one
  loglikelihood_rolling,  // the likelihood of a whole text
  generate_until,         // a greedy or sampled continuation
};
std::string_view output_type_name(OutputType type);

// Describes how a task computes a value from a document (doc_to_text and similar keys).
struct DocRule {
  enum class Kind { none, text, number, list, function };
  Kind kind = Kind::none;
  std::string text;               // name of a field or function, or a Jinja template
  int64_t number = 0;             // value of the kind `number`
  std::vector<std::string> list;  // value of the kind `list`

  explicit operator bool() const { return kind != Kind::none; }
};

struct MetricRule {
  std::string name;
  std::string aggregation;
  bool higher_is_better = true;
  // Options of exact_match.
  std::vector<std::string> regexes_to_ignore = {};
  bool ignore_case = false, ignore_punctuation = false, ignore_numbers = false;
};

struct FilterStep {
  std::string function;
  std::string regex_pattern = {}, fallback = "[invalid]";  // options of regex
  // Option of regex: the index of the match, counted from the end if negative.
  int64_t group_select = 0;
  int64_t k = 0;                                    // option of take_first_k
  std::map<std::string, std::string> mapping = {};  // option of map
  std::optional<std::string> default_value = {};    // option of map
};

// A sequence of filters. The filters turn the texts that the model generated into the answers that metrics
// judge.
struct FilterRule {
  std::string name;
  std::vector<FilterStep> steps;
};

struct GenerationRule {
  std::vector<std::string> until;
  int64_t max_tokens = 256;
  double temperature = 0;  // 0: greedy
  double top_p = 1;
  int64_t top_k = 0;
};

// Source and format of the few-shot examples, which precede the question.
struct FewshotRule {
  bool first_n = false;  // use the first examples of the split instead of a sample per document
  std::optional<std::string> split = {};
  // A list of documents to use instead of a split.
  std::shared_ptr<const nlohmann::ordered_json> samples = {};
  DocRule text = {}, target = {}, choice = {}, gen_prefix = {};
  std::string delimiter = {}, target_delimiter = {};
};

// A task of lm-evaluation-harness 0.4.13 that can run without Python.
struct TaskConfig {
  std::string name, alias;
  std::vector<std::string> tags;
  std::string file;  // path of its YAML file
  OutputType output = OutputType::generate_until;

  std::string dataset_path, dataset_name;  // for dataset_path "json", see data_files
  std::map<std::string, std::vector<std::string>> data_files;
  std::optional<std::string> training_split, validation_split, test_split;
  std::string process_docs;  // name of a function in native_functions.h, or ""

  DocRule text, target, choice, description, gen_prefix;
  std::string target_delimiter = " ";
  FewshotRule fewshot;
  std::optional<int64_t> num_fewshot;

  GenerationRule generation;
  int64_t repeats = 1;
  std::vector<FilterRule> filters;
  std::vector<MetricRule> metrics;
};

// Reads the keys of a task. Throws Error naming file, line and key. Rejects features that cannot be
// reproduced: Python functions that native_functions.h does not implement, images and sound, prompts of
// promptsource, and unknown metrics and filters. The message names the feature.
TaskConfig read_task_config(const TaskFile& file);

}  // namespace gpt
