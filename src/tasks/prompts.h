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

// Applies the rules of a task to a document and returns Python values as JSON. Caches the compiled templates.
class DocRules {
 public:
  DocRules(const TaskConfig& config, const nlohmann::ordered_json& first_document);

  // If the rule is the name of a field, returns the value of this field. Otherwise, renders the template and
  // returns the text. If the task has choices and the text consists of digits, returns it as a number, which
  // is the index of a choice.
  nlohmann::ordered_json text(const DocRule& rule, const nlohmann::ordered_json& doc);
  // Returns a text, a number or a list.
  nlohmann::ordered_json target(const DocRule& rule, const nlohmann::ordered_json& doc);
  std::vector<std::string> choices(const DocRule& rule, const nlohmann::ordered_json& doc);
  // Evaluates gen_prefix or description, which may also name a field. Returns "" if there is no rule.
  std::string plain(const DocRule& rule, const nlohmann::ordered_json& doc);

 private:
  std::string render(const std::string& source, const nlohmann::ordered_json& doc);
  bool is_field(const std::string& name) const { return fields_.count(name) > 0; }

  const TaskConfig& config_;
  std::map<std::string, bool> fields_;
  std::map<std::string, JinjaTemplate> templates_;
};

// The requests to the model for one document.
struct TaskPrompt {
  // Contexts and continuations to be scored. For acc_mutual_info, the choices with an empty context follow
  // the other pairs. A generation task has one context, and a rolling likelihood has one continuation.
  struct Pair {
    std::string context, continuation;
  };
  std::vector<Pair> pairs;
  // choices of a multiple-choice task, or of a generation task with doc_to_choice
  std::vector<std::string> choices;
  // Indices of the right choices of a multiple-choice task. The index -100 stands for a right answer that is
  // not among the choices. At least one right answer is among the choices.
  std::vector<int64_t> gold;
  // Correct answers of a task that is not multiple-choice.
  std::vector<std::string> targets;
};

// Returns the number of few-shot examples before each question. `asked` overrides the num_fewshot of the
// task, unless the task sets num_fewshot to 0.
int64_t shots_of(const TaskConfig& config, std::optional<int64_t> asked);

// Builds the prompts of a task as lm-evaluation-harness 0.4.13 does without a chat template: description,
// examples, question. One generator with the harness's default seed, 1234, samples the examples of all
// documents, so the prompts must be built in order.
class Prompts {
 public:
  // `num_fewshot` overrides the task's own number of examples. Throws Error naming the task.
  Prompts(const TaskConfig& config, TaskData& data, std::optional<int64_t> num_fewshot);

  const Documents& documents() const { return *documents_; }
  int64_t num_fewshot() const { return num_fewshot_; }
  bool multiple_targets() const { return multiple_target_; }

  // Returns the prompt for the next document. Throws Error naming the document.
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
  bool excludes_document_ = false;  // a document is not an example for itself
  PythonRandom random_{1234};
  size_t at_ = 0;
};

}  // namespace gpt
