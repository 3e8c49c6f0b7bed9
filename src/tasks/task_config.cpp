#include "tasks/task_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/suggest.h"
#include "tasks/native_functions.h"
#include "tasks/task_rules.h"
#include "tasks/yaml.h"

namespace gpt {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMaxRepeats = 4096;

const std::vector<std::string> kKeys = {"task",
                                        "task_alias",
                                        "tag",
                                        "group",
                                        "task_list",
                                        "dataset_path",
                                        "dataset_name",
                                        "dataset_kwargs",
                                        "training_split",
                                        "validation_split",
                                        "test_split",
                                        "fewshot_split",
                                        "process_docs",
                                        "doc_to_text",
                                        "doc_to_target",
                                        "doc_to_choice",
                                        "unsafe_code",
                                        "description",
                                        "target_delimiter",
                                        "fewshot_delimiter",
                                        "fewshot_config",
                                        "num_fewshot",
                                        "metric_list",
                                        "output_type",
                                        "repeats",
                                        "filter_list",
                                        "gen_prefix",
                                        "should_decontaminate",
                                        "metadata",
                                        "generation_kwargs",
                                        "doc_to_decontamination_query"};

// Keys of lm-evaluation-harness for unsupported features, with the error message for each key.
const std::map<std::string, std::string> kRefused = {
    {"class", "tasks written in Python are not supported"},
    {"custom_dataset",
     "functions that generate data are not supported; name JSONL files in dataset_kwargs.data_files"},
    {"doc_to_image", "images are not supported"},
    {"doc_to_audio", "audio is not supported"},
    {"process_results", "scoring functions are not supported"},
    {"use_prompt", "promptsource is not supported; write the template in doc_to_text"}};

void check_keys(const TaskFile& file) {
  for (const auto& [key, value] : file.keys().items()) {
    if (value.is_null()) continue;
    if (const auto refused = kRefused.find(key); refused != kRefused.end())
      fail("{}: {}", file.place(key), refused->second);
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      fail("{}: unknown key of a task{}", file.place(key), did_you_mean(key, kKeys));
  }
  const ordered_json* unsafe = file.find("unsafe_code");
  if (unsafe != nullptr && *unsafe != false)
    fail("{}: running code is not supported", file.place("unsafe_code"));
}

OutputType output_type(const TaskFile& file) {
  const std::string name = file.text("output_type").value_or("generate_until");
  for (const OutputType type : {OutputType::multiple_choice, OutputType::loglikelihood,
                                OutputType::loglikelihood_rolling, OutputType::generate_until}) {
    if (output_type_name(type) == name) return type;
  }
  file.refuse("output_type", "multiple_choice, loglikelihood, loglikelihood_rolling or generate_until", name);
}

// Reads data_files of dataset_kwargs, which is a file, a list of files, or a map from splits to files.
void read_data_files(const TaskFile& file, TaskConfig& config) {
  const ordered_json* kwargs = file.find("dataset_kwargs");
  if (kwargs == nullptr) return;
  if (!kwargs->is_object()) file.refuse("dataset_kwargs", "a map", shown_value(*kwargs));
  const auto add = [&](const std::string& split, const ordered_json& names) {
    for (const ordered_json& name : as_list(names)) {
      if (!name.is_string()) file.refuse("dataset_kwargs", "file names in data_files", shown_value(name));
      config.data_files[split].push_back(name.get<std::string>());
    }
  };
  for (const auto& [key, value] : kwargs->items()) {
    // These keys have no effect, because this program neither downloads data nor runs Python.
    if (key == "trust_remote_code" || key == "streaming") continue;
    if (key != "data_files")
      file.refuse("dataset_kwargs", "data_files", shown_value(ordered_json{{key, value}}));
    if (value.is_object()) {
      for (const auto& [split, names] : value.items())
        add(split, names);
    } else {
      add("train", value);
    }
  }
}

GenerationRule read_generation(const TaskFile& file, const std::string& fewshot_delimiter) {
  GenerationRule rule{.until = {fewshot_delimiter}};
  const ordered_json* kwargs = file.find("generation_kwargs");
  if (kwargs == nullptr) return rule;
  if (!kwargs->is_object()) file.refuse("generation_kwargs", "a map", shown_value(*kwargs));
  const auto number = [&](const std::string& key, const ordered_json& value) {
    if (value.is_string()) {
      if (const auto x = parse_number_text(value.get<std::string>())) return *x;
    }
    if (!value.is_number()) file.refuse("generation_kwargs", key + " to be a number", shown_value(value));
    return value.get<double>();
  };
  const auto whole_number = [&](const std::string& key, const ordered_json& value, int64_t least) {
    constexpr double kMost = 1e9;
    const double x = number(key, value);
    if (!(x >= static_cast<double>(least) && x <= kMost && x == std::floor(x)))
      file.refuse("generation_kwargs", fmt::format("{} to be an integer from {} to 1e9", key, least),
                  shown_value(value));
    return static_cast<int64_t>(x);
  };
  std::optional<bool> do_sample;
  int64_t best_alias = 4;
  const std::vector<std::string> aliases = {"max_gen_toks", "max_new_tokens", "max_tokens",
                                            "max_completion_tokens"};
  for (const auto& [key, value] : kwargs->items()) {
    const auto alias = std::find(aliases.begin(), aliases.end(), key) - aliases.begin();
    if (key == "until") {
      rule.until.clear();
      for (const ordered_json& stop : as_list(value)) {
        if (!stop.is_string()) file.refuse("generation_kwargs", "strings in until", shown_value(stop));
        if (!stop.get<std::string>().empty()) rule.until.push_back(stop.get<std::string>());
      }
    } else if (alias < std::ssize(aliases)) {
      const int64_t tokens = whole_number(key, value, 1);
      if (alias < best_alias) rule.max_tokens = tokens;
      best_alias = std::min<int64_t>(best_alias, alias);
    } else if (key == "do_sample") {
      if (!value.is_boolean())
        file.refuse("generation_kwargs", "do_sample to be true or false", shown_value(value));
      do_sample = value.get<bool>();
    } else if (key == "temperature") {
      rule.temperature = number(key, value);
    } else if (key == "top_p") {
      rule.top_p = number(key, value);
    } else if (key == "top_k") {
      rule.top_k = whole_number(key, value, 0);
    } else {
      file.refuse("generation_kwargs", "until, max_gen_toks, do_sample, temperature, top_p or top_k", key);
    }
  }
  if (do_sample == false) rule.temperature = 0;
  if (do_sample == true && rule.temperature == 0) rule.temperature = 1;
  return rule;
}

// Reads the name of a process_docs function. Throws Error unless the function is known (native_functions.h).
std::string read_process_docs(const TaskFile& file, const std::string& key, const ordered_json* value) {
  if (value == nullptr) return "";
  if (!value->is_object() || !value->contains(kYamlFunction))
    file.refuse(key, "a !function", shown_value(*value));
  const std::string name = (*value)[kYamlFunction].get<std::string>();
  require_native_function(name, NativeUse::process_docs, file, key);
  return name;
}

FewshotRule read_fewshot(const TaskFile& file, const TaskConfig& task) {
  FewshotRule rule{.split = file.text("fewshot_split"),
                   .text = task.text,
                   .target = task.target,
                   .choice = task.choice,
                   .gen_prefix = task.gen_prefix,
                   .delimiter = file.text("fewshot_delimiter").value_or("\n\n"),
                   .target_delimiter = task.target_delimiter};
  const ordered_json* config = file.find("fewshot_config");
  if (config == nullptr) return rule;
  if (!config->is_object()) file.refuse("fewshot_config", "a map", shown_value(*config));
  const auto text = [&](const std::string& key, const ordered_json& value) {
    if (!value.is_string()) file.refuse("fewshot_config", key + " to be a string", shown_value(value));
    return value.get<std::string>();
  };
  for (const auto& [key, value] : config->items()) {
    if (value.is_null() && key != "split") continue;
    if (key == "sampler") {
      const std::string name = text(key, value);
      if (name != "default" && name != "first_n")
        file.refuse("fewshot_config", "the sampler default or first_n", name);
      rule.first_n = name == "first_n";
    } else if (key == "split") {
      rule.split = value.is_null() ? std::nullopt : std::optional(text(key, value));
    } else if (key == "samples") {
      if (!value.is_array())
        file.refuse("fewshot_config", "a list of documents as samples", shown_value(value));
      rule.samples = std::make_shared<const ordered_json>(value);
    } else if (key == "doc_to_text") {
      rule.text = read_doc_rule(file, "fewshot_config", value);
    } else if (key == "doc_to_target") {
      rule.target = read_doc_rule(file, "fewshot_config", value);
    } else if (key == "doc_to_choice") {
      rule.choice = read_doc_rule(file, "fewshot_config", value);
    } else if (key == "gen_prefix") {
      rule.gen_prefix = read_doc_rule(file, "fewshot_config", value);
    } else if (key == "fewshot_delimiter") {
      rule.delimiter = text(key, value);
    } else if (key == "target_delimiter") {
      rule.target_delimiter = text(key, value);
    } else if (key == "process_docs") {
      if (read_process_docs(file, "fewshot_config", &value) != task.process_docs)
        file.refuse("fewshot_config", "the same process_docs as the task", shown_value(value));
    } else {
      file.refuse("fewshot_config",
                  "sampler, split, samples, doc_to_*, gen_prefix, fewshot_delimiter or target_delimiter",
                  key);
    }
  }
  return rule;
}

// Checks that the keys satisfy the requirements of the task type.
void check_task(const TaskFile& file, const TaskConfig& c) {
  if (!c.test_split && !c.validation_split)
    fail("{}: expected a test_split or a validation_split, found neither", c.file);
  if (!c.target) fail("{}: doc_to_target is missing", c.file);
  if (!c.text && c.output != OutputType::loglikelihood_rolling) fail("{}: doc_to_text is missing", c.file);
  if (c.output == OutputType::multiple_choice && !c.choice)
    fail("{}: doc_to_choice is missing, but multiple_choice requires it", c.file);
  if (c.num_fewshot.value_or(0) < 0) file.refuse("num_fewshot", "0 or more", std::to_string(*c.num_fewshot));
  const int64_t most = c.output == OutputType::generate_until ? kMaxRepeats : 1;
  if (c.repeats < 1 || c.repeats > most)
    file.refuse("repeats", fmt::format("1, or up to {} with generate_until", kMaxRepeats),
                std::to_string(c.repeats));
}

}  // namespace

std::string_view output_type_name(OutputType type) {
  switch (type) {
    case OutputType::multiple_choice:
      return "multiple_choice";
    case OutputType::loglikelihood:
      return "loglikelihood";
    case OutputType::loglikelihood_rolling:
      return "loglikelihood_rolling";
    case OutputType::generate_until:
      return "generate_until";
  }
  return "";
}

TaskConfig read_task_config(const TaskFile& file) {
  check_keys(file);
  TaskConfig c;
  c.file = file.path();
  c.name = file.text("task").value_or("");
  if (c.name.empty()) fail("{}: expected the name of a task for the key \"task\", found none", file.path());
  c.alias = file.text("task_alias").value_or(c.name);
  c.tags = file.texts("tag");
  c.output = output_type(file);
  c.dataset_path = file.text("dataset_path").value_or("");
  if (c.dataset_path.empty())
    fail("{}: dataset_path is missing; set it to json for local files", file.path());
  c.dataset_name = file.text("dataset_name").value_or("");
  read_data_files(file, c);
  c.training_split = file.text("training_split");
  c.validation_split = file.text("validation_split");
  c.test_split = file.text("test_split");
  c.process_docs = read_process_docs(file, "process_docs", file.find("process_docs"));
  const auto rule = [&](const char* key) {
    const ordered_json* value = file.find(key);
    return value == nullptr ? DocRule() : read_doc_rule(file, key, *value);
  };
  c.text = rule("doc_to_text");
  c.target = rule("doc_to_target");
  c.choice = rule("doc_to_choice");
  c.description = rule("description");
  c.gen_prefix = rule("gen_prefix");
  c.target_delimiter = file.text("target_delimiter").value_or(" ");
  c.fewshot = read_fewshot(file, c);
  c.num_fewshot = file.integer("num_fewshot");
  c.generation = read_generation(file, file.text("fewshot_delimiter").value_or("\n\n"));
  c.repeats = file.integer("repeats").value_or(1);
  c.filters = read_filters(file, c.output);
  c.metrics = read_metrics(file, c.output);
  check_task(file, c);
  return c;
}

}  // namespace gpt
