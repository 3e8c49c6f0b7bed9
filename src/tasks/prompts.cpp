#include "tasks/prompts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/parse.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "tasks/native_functions.h"
#include "tasks/python_text.h"

namespace gpt {
namespace {

using json = nlohmann::ordered_json;

// Joins two texts with a space, unless there is already white space between them.
std::string delimited(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || ends_with_space(a) || starts_with_space(b)) return a + b;
  return a + " " + b;
}

bool needs_delimiter(const std::string& a, const std::string& b) {
  return !a.empty() && !ends_with_space(a) && !starts_with_space(b);
}

std::vector<std::string> texts_of(const json& list, const char* what) {
  if (!list.is_array()) fail("{}: expected a list of strings, found {}", what, json_kind(list));
  return transformed(list, [&](const json& element) {
    if (!element.is_string()) fail("{}: expected strings, found {}", what, json_kind(element));
    return element.get<std::string>();
  });
}

size_t index_of(int64_t number, size_t count, const char* what) {
  const auto n = static_cast<int64_t>(count);
  if (number < -n || number >= n)
    fail("{}: expected the index of one of {} choices, found {}", what, n, number);
  // Negative indices count from the end, as in Python.
  return static_cast<size_t>(number < 0 ? number + n : number);
}

}  // namespace

DocRules::DocRules(const TaskConfig& config, const json& first_document) : config_(config) {
  for (const auto& [field, value] : first_document.items())
    fields_[field] = true;
}

std::string DocRules::render(const std::string& source, const json& doc) {
  auto known = templates_.find(source);
  if (known == templates_.end()) {
    const JinjaOptions options{.trim_blocks = false,
                               .lstrip_blocks = false,
                               .keep_trailing_newline = true,
                               .strict_undefined = true,
                               .now = {}};
    known = templates_.emplace(source, JinjaTemplate(source, options)).first;
  }
  return known->second.render(doc);
}

json DocRules::text(const DocRule& rule, const json& doc) {
  if (rule.kind == DocRule::Kind::number) return rule.number;
  if (rule.kind == DocRule::Kind::function) return native_value(rule.text, doc);
  if (rule.kind != DocRule::Kind::text) fail("doc_to_text: expected a template, found a list");
  if (is_field(rule.text)) return doc.value(rule.text, json());
  const std::string out = render(rule.text, doc);
  if (config_.choice && is_digits(out)) {
    if (const auto number = python_literal(out)) return *number;
    fail("doc_to_text: expected the index of a choice, found {}", out);
  }
  return out;
}

json DocRules::target(const DocRule& rule, const json& doc) {
  if (rule.kind == DocRule::Kind::number) return rule.number;
  if (rule.kind == DocRule::Kind::list) return rule.list;
  if (rule.kind == DocRule::Kind::function) return native_value(rule.text, doc);
  if (is_field(rule.text)) return doc.value(rule.text, json());
  const std::string out = render(rule.text, doc);
  const bool number = config_.choice && is_digits(out);
  if (number || (out.size() >= 2 && out.front() == '[' && out.back() == ']')) {
    if (const auto value = python_literal(out)) return *value;
    if (number) fail("doc_to_target: expected the index of a choice, found {}", out);
  }
  return out;
}

std::vector<std::string> DocRules::choices(const DocRule& rule, const json& doc) {
  if (rule.kind == DocRule::Kind::list) return rule.list;
  if (rule.kind == DocRule::Kind::function) return texts_of(native_value(rule.text, doc), "doc_to_choice");
  if (rule.kind != DocRule::Kind::text) fail("doc_to_choice: expected a template or a list");
  if (is_field(rule.text)) return texts_of(doc.value(rule.text, json()), "doc_to_choice");
  const std::string out = render(rule.text, doc);
  const auto value = python_literal(out);
  if (!value) fail("doc_to_choice: expected a list in Python syntax, found {}", out.substr(0, 80));
  return texts_of(*value, "doc_to_choice");
}

std::string DocRules::plain(const DocRule& rule, const json& doc) {
  if (!rule) return "";
  if (rule.kind != DocRule::Kind::text) fail("description and gen_prefix: expected a template");
  if (!is_field(rule.text)) return render(rule.text, doc);
  const json value = doc.value(rule.text, json());
  if (!value.is_string()) fail("the field {}: expected a string, found {}", rule.text, json_kind(value));
  return value.get<std::string>();
}

namespace {

const std::string& eval_split(const TaskConfig& config) {
  return config.test_split ? *config.test_split : *config.validation_split;
}

// Returns the documents from which few-shot examples are taken. Uses the first source in this list that the
// task specifies: the few-shot split, a list of samples, the training split, the validation split, the
// evaluated split.
Documents shot_documents(const TaskConfig& config, TaskData& data) {
  const FewshotRule& rule = config.fewshot;
  if (rule.split) return data.split(*rule.split);
  if (rule.samples != nullptr) {
    Documents docs;
    docs.docs = std::make_shared<const std::vector<json>>(rule.samples->begin(), rule.samples->end());
    for (size_t i = 0; i < docs.docs->size(); ++i)
      docs.places.push_back(fmt::format("{}: sample {} of fewshot_config", config.file, i + 1));
    return docs;
  }
  if (config.training_split) return data.split(*config.training_split);
  if (config.validation_split) return data.split(*config.validation_split);
  return data.split(eval_split(config));
}

}  // namespace

int64_t shots_of(const TaskConfig& config, std::optional<int64_t> asked) {
  if (config.num_fewshot == 0 || !asked) return config.num_fewshot.value_or(0);
  return *asked;
}

Prompts::Prompts(const TaskConfig& config, TaskData& data, std::optional<int64_t> num_fewshot)
    : config_(config),
      documents_(&data.split(eval_split(config))),
      rules_(config, documents_->docs->front()),
      num_fewshot_(shots_of(config, num_fewshot)),
      excludes_document_(config.fewshot.split == config.test_split) {
  if (num_fewshot_ > 0) shots_ = shot_documents(config, data);
  for (const MetricRule& metric : config.metrics)
    mutual_info_ = mutual_info_ || metric.name == "acc_mutual_info";
  try {
    const json& first = documents_->docs->front();
    if (config.text) multiple_input_ = config.choice && rules_.text(config.text, first).is_number_integer();
    multiple_target_ = rules_.target(config.target, first).is_array();
  } catch (const Error& e) {
    fail_because(e, "task {}, {}: {}", config.name, documents_->places.front(), e.what());
  }
}

std::vector<const json*> Prompts::examples(const json& doc) {
  const auto n = static_cast<size_t>(num_fewshot_);
  const std::vector<json>& pool = *shots_.docs;
  const bool excludes = excludes_document_ && !doc.empty();
  std::vector<const json*> chosen;
  const auto take = [&](const json& example) {
    if (chosen.size() < n && !(excludes && example == doc)) chosen.push_back(&example);
  };
  const auto short_of = [&](size_t have, size_t want) {
    fail("expected at least {} documents for {} examples before each question, found {}", want, n, have);
  };
  if (config_.fewshot.first_n) {
    for (const json& example : pool)
      take(example);
    if (chosen.size() < n) short_of(chosen.size(), n);
    return chosen;
  }
  const size_t drawn = n + (excludes ? 1 : 0);
  if (pool.size() < drawn) short_of(pool.size(), drawn);
  for (const size_t i : random_.sample(pool.size(), drawn))
    take(pool[i]);
  if (chosen.size() == n) return chosen;
  // The sample contained the document several times, so sample again from the other documents.
  std::vector<const json*> others;
  for (const json& example : pool) {
    if (example != doc) others.push_back(&example);
  }
  if (others.size() < n) short_of(others.size(), n);
  return transformed(random_.sample(others.size(), n), [&](size_t i) { return others[i]; });
}

std::string Prompts::question(const json& value) const {
  if (!value.is_string()) fail("doc_to_text: expected a string, found {}", json_kind(value));
  return value.get<std::string>();
}

std::string Prompts::shot(const json& doc) {
  const FewshotRule& rule = config_.fewshot;
  json q = rules_.text(rule.text, doc);
  std::vector<std::string> choices;
  if (rule.choice) choices = rules_.choices(rule.choice, doc);
  const json a = rules_.target(rule.target, doc);
  const std::string prefix = rules_.plain(rule.gen_prefix, doc);
  if (multiple_input_) {
    if (!q.is_number_integer()) fail("doc_to_text: expected the index of a choice, found {}", json_kind(q));
    q = choices[index_of(q.get<int64_t>(), choices.size(), "doc_to_text")];
    choices.clear();
  }
  std::string out = question(q);
  const bool has_answer = !a.is_null() && !(a.is_string() && a.get_ref<const std::string&>().empty());
  if (has_answer ? prefix.empty() || needs_delimiter(out, prefix)
                 : !prefix.empty() && needs_delimiter(out, prefix))
    out += rule.target_delimiter;
  if (!has_answer) return out + prefix;
  json answer = a;
  if (a.is_number_integer() && !choices.empty())
    answer = choices[index_of(a.get<int64_t>(), choices.size(), "doc_to_target")];
  if (a.is_array()) answer = a.empty() ? json() : a[0];
  if (!answer.is_string()) fail("doc_to_target: expected a string, found {}", json_kind(answer));
  return out + delimited(prefix, answer.get<std::string>()) + rule.delimiter;
}

TaskPrompt Prompts::next() {
  const json& doc = (*documents_->docs)[at_];
  try {
    TaskPrompt prompt = make(doc);
    ++at_;
    return prompt;
  } catch (const Error& e) {
    fail_because(e, "task {}, {}: {}", config_.name, documents_->places[at_], e.what());
  }
}

TaskPrompt Prompts::make(const json& doc) {
  std::string before = rules_.plain(config_.description, doc);
  if (num_fewshot_ > 0) {
    for (const json* example : examples(doc))
      before += shot(*example);
  }
  if (config_.output == OutputType::multiple_choice) return make_choices(doc, before);
  TaskPrompt prompt;
  const json target = rules_.target(config_.target, doc);
  if (target.is_array()) {
    prompt.targets = transformed(target, python_str);
  } else {
    prompt.targets = {python_str(target)};
  }
  if (config_.output == OutputType::loglikelihood_rolling) {
    if (!target.is_string()) fail("doc_to_target: expected a string, found {}", json_kind(target));
    prompt.pairs = {{"", prompt.targets.front()}};
    return prompt;
  }
  const std::string context = before + turn(doc);
  if (config_.output == OutputType::loglikelihood) {
    if (!target.is_string()) fail("doc_to_target: expected a string, found {}", json_kind(target));
    prompt.pairs = {{context, prompt.targets.front()}};
    return prompt;
  }
  prompt.pairs = {{context, ""}};
  if (config_.choice) {
    prompt.choices = rules_.choices(config_.choice, doc);
    if (!target.is_number_integer())
      fail("doc_to_target: expected the index of a choice, found {}", json_kind(target));
    prompt.targets = {
        prompt.choices[index_of(target.get<int64_t>(), prompt.choices.size(), "doc_to_target")]};
  }
  return prompt;
}

// Returns the question, followed by the beginning of the answer.
std::string Prompts::turn(const json& doc) {
  const std::string q = question(rules_.text(config_.text, doc));
  const std::string prefix = rules_.plain(config_.gen_prefix, doc);
  if (!prefix.empty() && needs_delimiter(q, prefix)) return q + config_.target_delimiter + prefix;
  return q + prefix;
}

TaskPrompt Prompts::make_choices(const json& doc, const std::string& before) {
  TaskPrompt prompt;
  prompt.choices = rules_.choices(config_.choice, doc);
  if (prompt.choices.empty()) fail("doc_to_choice: expected at least one choice, found none");
  const json target = rules_.target(config_.target, doc);
  const std::string& delimiter = config_.target_delimiter;
  if (multiple_input_) {
    prompt.gold = gold_of(rules_.text(config_.text, doc), prompt.choices);
    const std::string prefix = rules_.plain(config_.gen_prefix, doc);
    for (const std::string& choice : prompt.choices)
      prompt.pairs.push_back({before + choice + prefix, delimiter + python_str(target)});
  } else {
    prompt.gold = gold_of(target, prompt.choices);
    const std::string context = before + turn(doc);
    for (const std::string& choice : prompt.choices)
      prompt.pairs.push_back({context, delimiter + choice});
  }
  if (mutual_info_) {
    for (const std::string& choice : prompt.choices)
      prompt.pairs.push_back({"", delimiter + choice});
  }
  return prompt;
}

std::vector<int64_t> Prompts::gold_of(const json& value, const std::vector<std::string>& choices) const {
  const auto n = std::ssize(choices);
  const auto one = [&](const json& gold) -> int64_t {
    if (gold.is_number_integer()) {
      const auto number = gold.get<int64_t>();
      return number >= 0 && number < n ? number : -100;
    }
    if (!gold.is_string()) fail("doc_to_target: expected an index or a string, found {}", json_kind(gold));
    const auto found = std::find(choices.begin(), choices.end(), gold.get<std::string>());
    return found == choices.end() ? -100 : found - choices.begin();
  };
  std::vector<int64_t> golds;
  if (value.is_array()) {
    golds = transformed(value, one);
  } else {
    if (multiple_target_) fail("doc_to_target: expected a list, as in the first document");
    golds = {one(value)};
  }
  // If no right answer is among the choices, the harness counts the document as wrong, regardless of the
  // model's response.
  if (std::ranges::all_of(golds, [](int64_t gold) { return gold < 0; })) {
    fail(
        "doc_to_target: expected one of the choices or its index, 0 to {}, found {}; fix the document or "
        "remove it",
        n - 1, printable(json_text(value).substr(0, 80)));
  }
  return golds;
}

}  // namespace gpt
