#include "tasks/run_tasks.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/ranges.h"
#include "tasks/answers.h"
#include "tasks/python_text.h"

namespace gpt {
namespace {

using json = nlohmann::ordered_json;

// Runs one task: builds its prompts, sends them to the model, and judges the responses.
class Run {
 public:
  Run(const TaskConfig& config, const TaskOptions& options)
      : config_(config),
        options_(options),
        data_(config, options.data_dir),
        prompts_(config, data_, options.num_fewshot) {
    const auto all = static_cast<int64_t>(prompts_.documents().size());
    const int64_t n = std::min(all, options.limit.value_or(all));
    asked_ = transformed_indices(n, [&](int64_t) { return prompts_.next(); });
    for (const FilterRule& filter : config.filters) {
      for (const MetricRule& metric : config.metrics) {
        metrics_.push_back({.name = metric.name,
                            .filter = filter.name,
                            .aggregation = metric.aggregation,
                            .higher_is_better = metric.higher_is_better});
      }
    }
  }

  void ask(TaskModel& model) {
    const auto progress = [&](int64_t done, int64_t total) {
      if (options_.progress) options_.progress(config_.name, done, total);
    };
    if (config_.output == OutputType::generate_until) {
      const auto contexts = transformed(asked_, [](const TaskPrompt& p) { return p.pairs.front().context; });
      sent_ = transformed(contexts, [&](const std::string& context) { return model.question_text(context); });
      texts_ = model.generate(contexts, config_.generation, config_.repeats, options_.seed, progress);
    } else if (config_.output == OutputType::loglikelihood_rolling) {
      const auto texts =
          transformed(asked_, [](const TaskPrompt& p) { return p.pairs.front().continuation; });
      for (const double logprob : model.rolling(texts, progress))
        scores_.push_back({logprob, false});
    } else {
      std::vector<TaskPrompt::Pair> pairs;
      for (const TaskPrompt& prompt : asked_)
        pairs.insert(pairs.end(), prompt.pairs.begin(), prompt.pairs.end());
      scores_ = model.scores(pairs, progress);
    }
  }

  TaskResult result(ThreadPool& pool) {
    size_t at = 0;
    for (size_t i = 0; i < asked_.size(); ++i) {
      const size_t n = config_.output == OutputType::generate_until ? 0 : asked_[i].pairs.size();
      const auto scores = std::span(scores_).subspan(at, n);
      at += n;
      try {
        judge(i, scores);
      } catch (const Error& e) {
        fail_because(e, "{}: {}", prompts_.documents().places[i], e.what());
      }
    }
    for (MetricResult& metric : metrics_)
      metric.estimate = estimate(metric.aggregation, metric.items, pool);
    return {.name = config_.name,
            .alias = config_.alias,
            .documents = std::ssize(asked_),
            .of_documents = static_cast<int64_t>(prompts_.documents().size()),
            .num_fewshot = prompts_.num_fewshot(),
            .metrics = std::move(metrics_)};
  }

 private:
  void judge(size_t i, std::span<const Score> scores) {
    const TaskPrompt& prompt = asked_[i];
    json answers = json::object();
    for (size_t f = 0; f < config_.filters.size(); ++f) {
      std::string answer;
      std::vector<MetricItem> items;
      switch (config_.output) {
        case OutputType::multiple_choice:
          items = choice_items(config_, prompt, scores, prompts_.multiple_targets());
          break;
        case OutputType::loglikelihood:
          items = likelihood_items(config_, scores.front());
          break;
        case OutputType::loglikelihood_rolling:
          items = rolling_items(config_, prompt.pairs.front().continuation, scores.front().logprob);
          break;
        case OutputType::generate_until:
          answer = filtered_answer(config_.filters[f], texts_[i], patterns_);
          answers[config_.filters[f].name] = answer;
          items = answer_items(config_, prompt, answer, patterns_);
      }
      for (size_t m = 0; m < items.size(); ++m)
        metrics_[f * config_.metrics.size() + m].items.push_back(items[m]);
    }
    if (options_.on_sample) options_.on_sample(sample(i, scores, answers));
  }

  // Returns a line of JSON with the prompts, the responses and the scores of a document.
  std::string sample(size_t i, std::span<const Score> scores, const json& answers) const {
    const TaskPrompt& prompt = asked_[i];
    json out = {{"doc_id", i},
                {"task", config_.name},
                {"place", prompts_.documents().places[i]},
                {"doc", plain_document((*prompts_.documents().docs)[i])}};
    if (config_.output == OutputType::multiple_choice) {
      out["target"] = prompt.gold;
    } else {
      out["target"] = prompt.targets;
    }
    out["arguments"] = json::array();
    for (const TaskPrompt::Pair& pair : prompt.pairs)
      out["arguments"].push_back({sent_.empty() ? pair.context : sent_[i], pair.continuation});
    if (config_.output == OutputType::generate_until) {
      out["responses"] = texts_[i];
      out["filtered"] = answers;
    } else {
      out["responses"] = json::array();
      for (const Score& score : scores)
        out["responses"].push_back({{"logprob", score.logprob}, {"greedy", score.greedy}});
    }
    for (const MetricResult& metric : metrics_)
      out["metrics"][metric.name + "," + metric.filter] = metric.items.back().value;
    return json_text(out);
  }

  const TaskConfig& config_;
  const TaskOptions& options_;
  TaskData data_;
  Prompts prompts_;
  Patterns patterns_;
  std::vector<TaskPrompt> asked_;
  std::vector<Score> scores_;                    // scores of all pairs of all documents
  std::vector<std::string> sent_;                // generation tasks: prompts that the model received
  std::vector<std::vector<std::string>> texts_;  // generation tasks: generated texts of each document
  std::vector<MetricResult> metrics_;
};

// The result of one task for a metric and a filter.
struct Part {
  double value, size;
  std::optional<double> standard_error;
};

GroupScore combined(const std::vector<Part>& parts, bool weight_by_size) {
  GroupScore score;
  double weights = 0, variance = 0, sizes = 0;
  bool known = true;
  for (const Part& part : parts) {
    const double weight = weight_by_size ? part.size : 1;
    score.value += part.value * weight;
    weights += weight;
    sizes += part.size;
    known = known && part.standard_error.has_value();
    const double error = part.standard_error.value_or(0);
    // If weight_by_size is set, compute the pooled variance of the samples. Otherwise, compute the variance
    // of the mean of all parts. The parts are independent.
    variance += error * error * (weight_by_size ? (part.size - 1) * part.size : 1);
  }
  score.value /= weights;
  score.documents = static_cast<int64_t>(sizes);
  const auto n = static_cast<double>(parts.size());
  if (known)
    score.standard_error =
        weight_by_size ? std::sqrt(variance / (sizes - n) / sizes) : std::sqrt(variance) / n;
  return score;
}

}  // namespace

void check_chat_task(const TaskConfig& config, const TaskOptions& options) {
  const int64_t shots = shots_of(config, options.num_fewshot);
  const std::string task = fmt::format("task {} with a chat template", config.name);
  if (config.output != OutputType::generate_until)
    fail("{}: only generate_until tasks are supported, found {}; remove the task or `template`", task,
         output_type_name(config.output));
  if (shots > 0)
    fail("{}: expected a task without few-shot examples, found {}; set `few_shot` 0", task, shots);
  if (config.description || config.gen_prefix)
    fail("{}: expected a task without description and gen_prefix", task);
}

TaskResult run_task(const TaskConfig& config, TaskModel& model, const TaskOptions& options,
                    ThreadPool& pool) {
  if (model.chats()) check_chat_task(config, options);
  Run run(config, options);
  try {
    run.ask(model);
    return run.result(pool);
  } catch (const Error& e) {
    fail_because(e, "task {}: {}", config.name, e.what());
  }
}

std::vector<GroupScore> group_scores(const TaskGroup& group, const std::vector<TaskResult>& results) {
  std::vector<GroupScore> scores;
  for (const GroupMetric& metric : group.metrics) {
    std::vector<std::string> filters = metric.filters;
    std::map<std::string, std::vector<Part>> parts;
    for (const size_t task : group.tasks) {
      for (const MetricResult& m : results[task].metrics) {
        if (m.name != metric.metric) continue;
        if (metric.filters.empty() && parts.count(m.filter) == 0) filters.push_back(m.filter);
        parts[m.filter].push_back(
            {m.estimate.value, static_cast<double>(results[task].documents), m.estimate.standard_error});
      }
    }
    for (const std::string& filter : filters) {
      if (parts.count(filter) == 0) continue;
      GroupScore score = combined(parts[filter], metric.weight_by_size);
      score.name = metric.metric;
      score.filter = filter;
      scores.push_back(std::move(score));
    }
  }
  return scores;
}

}  // namespace gpt
