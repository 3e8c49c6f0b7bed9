#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tasks/documents.h"
#include "tasks/python_random.h"
#include "tasks/task_config.h"
#include "text/jinja/jinja.h"

namespace gpt {

// A task's templates, compiled once: what its rules make of a document, as Python values in JSON.
class DocRules {
 public:
  DocRules(const TaskConfig& config, const nlohmann::ordered_json& first_document);

  // A text; a number of a choice where digits came out and the task has choices; or what the field has.
  nlohmann::ordered_json text(const DocRule& rule, const nlohmann::ordered_json& doc);
  // A text, a number or a list.
  nlohmann::ordered_json target(const DocRule& rule, const nlohmann::ordered_json& doc);
  std::vector<std::string> choices(const DocRule& rule, const nlohmann::ordered_json& doc);
  // gen_prefix and description, which may name a field. "" where there is none.
  std::string plain(const DocRule& rule, const nlohmann::ordered_json& doc);

 private:
  std::string render(const std::string& source, const nlohmann::ordered_json& doc);
  bool is_field(const std::string& name) const { return fields_.count(name) > 0; }

  const TaskConfig& config_;
  std::map<std::string, bool> fields_;
  std::map<std::string, JinjaTemplate> templates_;
};

// What the model is asked about one document.
struct TaskPrompt {
  // The contexts and continuations whose likelihoods are wanted; of acc_mutual_info also the choices behind
  // no context at all, after the others. For generation one context, for a rolling likelihood one
  // continuation.
  struct Pair {
    std::string context, continuation;
  };
  std::vector<Pair> pairs;
  std::vector<std::string> choices;  // of multiple choice and of generation with doc_to_choice
  std::vector<int64_t> gold;         // of multiple choice: numbers of choices, -100: another, of several
  std::vector<std::string> targets;  // of the other types; several where the task has several right answers
};

// How many examples stand in front of a question: a task that says 0 means it.
int64_t shots_of(const TaskConfig& config, std::optional<int64_t> asked);

// Writes the prompts of a task as lm-evaluation-harness 0.4.13 does, without a chat template: description,
// examples, question. Examples are drawn with its default seed, 1234, by one generator for all documents, so
// prompts are made in order.
class Prompts {
 public:
  // num_fewshot: instead of the task's own number. Throws Error naming the task.
  Prompts(const TaskConfig& config, TaskData& data, std::optional<int64_t> num_fewshot);

  const Documents& documents() const { return *documents_; }
  int64_t num_fewshot() const { return num_fewshot_; }
  bool multiple_targets() const { return multiple_target_; }

  // The next document's. Throws Error naming it.
  TaskPrompt next();

 private:
  std::vector<const nlohmann::ordered_json*> examples(const nlohmann::ordered_json& doc);
  std::string turn(const nlohmann::ordered_json& doc);
  std::string shot(const nlohmann::ordered_json& doc);
  TaskPrompt make(const nlohmann::ordered_json& doc);
  TaskPrompt make_choices(const nlohmann::ordered_json& doc, const std::string& before);
  std::vector<int64_t> gold_of(const nlohmann::ordered_json& value,
                               const std::vector<std::string>& choices) const;
  std::string question(const nlohmann::ordered_json& value) const;

  const TaskConfig& config_;
  const Documents* documents_;
  Documents shots_;
  DocRules rules_;
  int64_t num_fewshot_;
  bool multiple_input_ = false, multiple_target_ = false, mutual_info_ = false;
  bool excludes_document_ = false;  // from its own examples
  PythonRandom random_{1234};
  size_t at_ = 0;
};

}  // namespace gpt
