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

// What is asked of the model for a document.
enum class OutputType {
  multiple_choice,        // which of several continuations is likeliest
  loglikelihood,          // how likely one continuation is, and whether it is the greedy one
  loglikelihood_rolling,  // how likely a text is
  generate_until,         // a greedy or sampled continuation
};
std::string_view output_type_name(OutputType type);

// How a task makes a value of a document (doc_to_text and the like).
struct DocRule {
  enum class Kind { none, text, number, list, function };
  Kind kind = Kind::none;
  std::string text;               // a field's name, else a Jinja template; or the name of a function
  int64_t number = 0;             // itself the value
  std::vector<std::string> list;  // itself the value

  explicit operator bool() const { return kind != Kind::none; }
};

struct MetricRule {
  std::string name;
  std::string aggregation;
  bool higher_is_better = true;
  // Of exact_match.
  std::vector<std::string> regexes_to_ignore = {};
  bool ignore_case = false, ignore_punctuation = false, ignore_numbers = false;
};

struct FilterStep {
  std::string function;
  std::string regex_pattern = {}, fallback = "[invalid]";  // of regex
  int64_t group_select = 0;                                // of regex: which match, from the end if negative
  int64_t k = 0;                                           // of take_first_k
  std::map<std::string, std::string> mapping = {};         // of map
  std::optional<std::string> default_value = {};           // of map
};

// Filters make the answers that metrics see of what the model wrote, one after the other.
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

// Where examples in front of the question come from and how they are written.
struct FewshotRule {
  bool first_n = false;  // the first ones of the split, else drawn anew for each document
  std::optional<std::string> split = {};
  std::shared_ptr<const nlohmann::ordered_json> samples = {};  // a list of documents instead of a split
  DocRule text = {}, target = {}, choice = {}, gen_prefix = {};
  std::string delimiter = {}, target_delimiter = {};
};

// A task of lm-evaluation-harness 0.4.13, as far as it can be run without Python.
struct TaskConfig {
  std::string name, alias;
  std::vector<std::string> tags;
  std::string file;  // its YAML
  OutputType output = OutputType::generate_until;

  std::string dataset_path, dataset_name;  // dataset_path "json": data_files
  std::map<std::string, std::vector<std::string>> data_files;
  std::optional<std::string> training_split, validation_split, test_split;
  std::string process_docs;  // a function that we know, "": none

  DocRule text, target, choice, description, gen_prefix;
  std::string target_delimiter = " ";
  FewshotRule fewshot;
  std::optional<int64_t> num_fewshot;

  GenerationRule generation;
  int64_t repeats = 1;
  std::vector<FilterRule> filters;
  std::vector<MetricRule> metrics;
};

// Reads the keys of a task. What cannot be done the same way is refused by name: Python functions other than
// those of native_functions.h, images and sound, prompts of promptsource, metrics and filters that are not
// known. Throws Error naming file, line and key.
TaskConfig read_task_config(const TaskFile& file);

}  // namespace gpt
