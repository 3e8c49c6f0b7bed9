#include "tasks/core_bundle.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "tasks/documents.h"
#include "tasks/python_random.h"
#include "tasks/python_text.h"
#include "tasks/task_file.h"

namespace gpt {
namespace {

using json = nlohmann::ordered_json;
using Ids = std::vector<int32_t>;

constexpr uint64_t kShuffleSeed = 1337, kExampleSeed = 1234;

// Splits a line of CSV into fields at its commas. Fields that contain commas or quotes are quoted.
std::vector<std::string> csv_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r' || quoted) {
      fields.back() += c;
    }
  }
  return fields;
}

std::map<std::string, double> read_baselines(const std::string& path) {
  constexpr uint64_t kMaxBytes = 1 << 22;
  const std::string text = read_file(path, kMaxBytes);
  std::map<std::string, double> baselines;
  size_t task = 0, baseline = 0;
  int64_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    const std::vector<std::string> fields = csv_fields(line);
    if (++number == 1) {
      const auto column = [&](const char* name) {
        const auto found = std::find(fields.begin(), fields.end(), name);
        if (found == fields.end()) fail("{}, line 1: expected a column \"{}\", found none", path, name);
        return static_cast<size_t>(found - fields.begin());
      };
      task = column("Eval Task");
      baseline = column("Random baseline");
      continue;
    }
    if (fields.size() <= std::max(task, baseline)) continue;
    const auto value = parse_number<double>(strip(fields[baseline]));
    if (!value) fail("{}, line {}: expected a number as \"Random baseline\"", path, number);
    baselines[fields[task]] = *value;
  }
  return baselines;
}

CoreTask::Kind kind_of(const TaskFile& file, const std::string& name) {
  if (name == "multiple_choice") return CoreTask::Kind::multiple_choice;
  if (name == "schema") return CoreTask::Kind::schema;
  if (name == "language_modeling") return CoreTask::Kind::language_modeling;
  file.refuse("icl_tasks", "the icl_task_type multiple_choice, schema or language_modeling", name);
}

// Returns a field of an example as text for a prompt.
std::string field(const json& item, const char* name) {
  const auto value = item.find(name);
  if (value == item.end() || value->is_null()) fail("the field {} is missing", name);
  if (value->is_structured()) fail("the field {}: expected a string, found {}", name, json_kind(*value));
  return python_str(*value);
}

std::vector<std::string> list_field(const json& item, const char* name) {
  const auto value = item.find(name);
  if (value == item.end() || !value->is_array() || value->empty())
    fail("the field {}: expected a list of strings", name);
  return transformed(*value, python_str);
}

size_t gold_of(const json& item, size_t choices) {
  const auto value = item.find("gold");
  const bool number = value != item.end() && value->is_number_integer();
  if (!number || value->get<int64_t>() < 0 || value->get<int64_t>() >= static_cast<int64_t>(choices))
    fail("the field gold: expected a number from 0 to {}", choices - 1);
  return value->get<size_t>();
}

// Returns an example with its answer, followed by an empty line.
std::string shot(const CoreTask& task, const json& item) {
  std::string question, answer;
  if (task.kind == CoreTask::Kind::multiple_choice) {
    const std::vector<std::string> choices = list_field(item, "choices");
    question = field(item, "query");
    answer = choices[gold_of(item, choices.size())];
  } else if (task.kind == CoreTask::Kind::schema) {
    const std::vector<std::string> contexts = list_field(item, "context_options");
    question = contexts[gold_of(item, contexts.size())];
    answer = field(item, "continuation");
  } else {
    question = std::string(strip(field(item, "context")));
    answer = field(item, "continuation");
  }
  return question + task.delimiter + answer + "\n\n";
}

std::vector<std::string> prompts_of(const CoreTask& task, const json& item, const std::string& shots) {
  std::vector<std::string> prompts;
  if (task.kind == CoreTask::Kind::multiple_choice) {
    for (const std::string& choice : list_field(item, "choices"))
      prompts.push_back(shots + field(item, "query") + task.delimiter + choice);
  } else if (task.kind == CoreTask::Kind::schema) {
    for (const std::string& context : list_field(item, "context_options"))
      prompts.push_back(shots + context + task.delimiter + field(item, "continuation"));
  } else {
    const std::string context = shots + std::string(strip(field(item, "context"))) + task.delimiter;
    prompts = {std::string(strip(context)), context + field(item, "continuation")};
  }
  return prompts;
}

// Returns the length of the longest common prefix of all sequences or, if `front` is false, of the longest
// common suffix.
int64_t common_length(const std::vector<Ids>& all, bool front) {
  int64_t n = 0;
  const auto at = [&](const Ids& ids) {
    return front ? ids[static_cast<size_t>(n)] : ids[ids.size() - 1 - static_cast<size_t>(n)];
  };
  const auto shortest = std::min_element(all.begin(), all.end(),
                                         [](const Ids& a, const Ids& b) { return a.size() < b.size(); });
  while (n < std::ssize(*shortest) &&
         std::all_of(all.begin(), all.end(), [&](const Ids& ids) { return at(ids) == at(all.front()); }))
    ++n;
  return n;
}

// Scores the documents of one task. The requests of the same document are consecutive.
class CoreRun {
 public:
  CoreRun(const CoreTask& task, TaskModel& model, const TaskOptions& options)
      : task_(task), model_(model), documents_(read_documents({task.data}, std::nullopt)) {
    if (model.prefix_id() < 0)
      fail("task {}: the tokenizer has no BOS token, which every prompt needs", task.label);
    order_ = PythonRandom(kShuffleSeed).shuffled(documents_.size());
    if (options.limit && *options.limit < std::ssize(order_))
      order_.resize(static_cast<size_t>(*options.limit));
    for (size_t i = 0; i < order_.size(); ++i) {
      try {
        add(i);
      } catch (const Error& e) {
        fail_because(e, "task {}, {}: {}", task.label, documents_.places[order_[i]], e.what());
      }
    }
  }

  std::vector<MetricItem> score(const TaskProgress& progress, const TaskOptions& options) {
    const std::vector<Score> scores = model_.score_ids(requests_, progress);
    std::vector<MetricItem> items;
    size_t at = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      json answers = json::array();
      std::vector<double> losses;
      bool greedy = true;
      for (const int64_t scored : scored_[i]) {
        double loss = std::nan("");  // the prompt has no ids to score
        if (scored > 0) {
          loss = -scores[at].logprob / static_cast<double>(scored);
          greedy = scores[at].greedy;
          ++at;
        }
        losses.push_back(loss);
        answers.push_back(loss);
      }
      const bool right = task_.kind == CoreTask::Kind::language_modeling ? greedy : best(losses) == gold_[i];
      items.push_back({right ? 1.0 : 0.0});
      if (options.on_sample)
        options.on_sample(json{{"doc_id", i},
                               {"task", task_.label},
                               {"place", documents_.places[order_[i]]},
                               {"losses", answers},
                               {"metrics", {{"acc,none", right ? 1 : 0}}}}
                              .dump());
    }
    return items;
  }

  int64_t of_documents() const { return static_cast<int64_t>(documents_.size()); }

 private:
  // Returns the index of the smallest loss, and the first index if several losses are equal. NaN compares as
  // in Python's min.
  static size_t best(const std::vector<double>& losses) {
    size_t least = 0;
    for (size_t i = 1; i < losses.size(); ++i)
      least = losses[i] < losses[least] ? i : least;
    return least;
  }

  const json& document(size_t i) const { return (*documents_.docs)[order_[i]]; }

  std::string shots(size_t i) const {
    if (task_.num_fewshot == 0) return "";
    const auto n = static_cast<size_t>(task_.num_fewshot);
    const size_t others = order_.size() - 1;
    if (others < n) fail("expected at least {} other documents for few-shot examples, found {}", n, others);
    std::string out;
    for (const size_t j : PythonRandom(kExampleSeed + i).sample(others, n))
      out += shot(task_, document(j < i ? j : j + 1));
    return out;
  }

  void add(size_t i) {
    const json& item = document(i);
    std::vector<Ids> all = transformed(prompts_of(task_, item, shots(i)), [&](const std::string& prompt) {
      Ids ids = model_.tokenizer().encode(prompt);
      ids.insert(ids.begin(), model_.prefix_id());
      return ids;
    });
    gold_.push_back(task_.kind == CoreTask::Kind::language_modeling ? 0 : gold_of(item, all.size()));
    scored_.emplace_back();
    if (task_.kind == CoreTask::Kind::language_modeling) {
      const Ids &without = all[0], &with = all[1];
      if (without.size() >= with.size() || !std::equal(without.begin(), without.end(), with.begin()))
        fail(
            "expected the token ids of the context to be a prefix of the token ids of the context with its "
            "continuation");
      add_request(with, std::ssize(with) - std::ssize(without));
      return;
    }
    const bool schema = task_.kind == CoreTask::Kind::schema;
    const int64_t common = common_length(all, !schema);
    for (Ids& ids : all)
      add_request(ids, schema ? common : std::ssize(ids) - common);
  }

  void add_request(Ids ids, int64_t scored) {
    scored_.back().push_back(scored);
    if (std::ssize(ids) > model_.n_ctx()) ids.erase(ids.begin(), ids.end() - model_.n_ctx());
    if (scored >= std::ssize(ids))
      fail("expected fewer than {} tokens to predict, found {}", ids.size(), scored);
    if (scored > 0) requests_.push_back({.ids = std::move(ids), .scored = scored});
  }

  const CoreTask& task_;
  TaskModel& model_;
  Documents documents_;
  std::vector<size_t> order_;
  std::vector<ScoreRequest> requests_;
  std::vector<std::vector<int64_t>> scored_;  // number of scored ids, by document and prompt
  std::vector<size_t> gold_;
};

}  // namespace

bool is_core_bundle(const std::string& path) {
  return TaskFile(path).has("icl_tasks");
}

std::vector<CoreTask> read_core_bundle(const std::string& path) {
  const TaskFile file(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const auto baselines = read_baselines((folder / "eval_meta_data.csv").string());
  const nlohmann::ordered_json& list = *file.find("icl_tasks");
  if (!list.is_array() || list.empty()) file.refuse("icl_tasks", "a list of tasks", shown_value(list));
  return transformed(list, [&](const nlohmann::ordered_json& entry) {
    const auto text = [&](const char* key) {
      if (!entry.is_object() || !entry.contains(key) || !entry[key].is_string())
        file.refuse("icl_tasks", fmt::format("a string for the key {} of each task", key),
                    shown_value(entry));
      return entry[key].get<std::string>();
    };
    CoreTask task{.label = text("label")};
    task.kind = kind_of(file, text("icl_task_type"));
    task.data = (folder / "eval_data" / text("dataset_uri")).string();
    const auto shots = entry.find("num_fewshot");
    if (shots == entry.end() || !shots->is_array() || shots->empty() || !(*shots)[0].is_number_integer())
      file.refuse("icl_tasks", "a list of integers for the key num_fewshot", shown_value(entry));
    task.num_fewshot = (*shots)[0].get<int64_t>();
    if (task.num_fewshot < 0) file.refuse("icl_tasks", "0 or more examples", shown_value(*shots));
    if (entry.contains("continuation_delimiter")) task.delimiter = text("continuation_delimiter");
    const auto baseline = baselines.find(task.label);
    if (baseline == baselines.end())
      fail("{}: expected the \"Random baseline\" of {} in eval_meta_data.csv, found none", path, task.label);
    task.random_baseline = baseline->second;
    return task;
  });
}

CoreResult run_core_task(const CoreTask& task, TaskModel& model, const TaskOptions& options,
                         ThreadPool& pool) {
  CoreRun run(task, model, options);
  MetricResult metric{.name = "acc", .filter = "none", .aggregation = "mean"};
  metric.items = run.score(
      [&](int64_t done, int64_t total) {
        if (options.progress) options.progress(task.label, done, total);
      },
      options);
  metric.estimate = estimate(metric.aggregation, metric.items, pool);
  const double chance = 0.01 * task.random_baseline;
  CoreResult out{.result = {.name = task.label,
                            .alias = task.label,
                            .documents = std::ssize(metric.items),
                            .of_documents = run.of_documents(),
                            .num_fewshot = task.num_fewshot},
                 .centered = (metric.estimate.value - chance) / (1 - chance)};
  out.result.metrics = {std::move(metric)};
  return out;
}

double core_metric(const std::vector<CoreResult>& results) {
  return sum_of(results, &CoreResult::centered) / static_cast<double>(results.size());
}

}  // namespace gpt
