#include "task_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/ranges.h"
#include "report/report_html.h"

namespace gpt {
namespace {

using nlohmann::json;

// Formats a score: ratios and bits per byte with four decimals, larger values such as perplexities with six
// significant digits.
std::string number(double value) {
  if (!std::isfinite(value)) return "?";
  return std::fabs(value) < 100 ? fixed(value, 4) : fmt::format("{:.6g}", value);
}

std::string plus_minus(const std::optional<double>& error) {
  return error ? number(*error) : "";
}

std::string range(const Interval& interval) {
  return fmt::format("{} to {}", number(interval.low), number(interval.high));
}

std::string p_value(double p) {
  return p < 1e-4 ? "< 0.0001" : fixed(p, 4);
}

std::string metric_name(const std::string& name, const std::string& filter) {
  return filter == "none" ? name : name + ", " + filter;
}

std::string documents_of(const TaskResult& task) {
  if (task.documents == task.of_documents) return format_thousands(task.documents);
  return fmt::format("{} of {}", format_thousands(task.documents), format_thousands(task.of_documents));
}

// Calls f for every metric of every task.
template <class F>
void for_each_metric(const ModelScores& scores, const F& f) {
  for (const TaskResult* task : scores.all()) {
    for (const MetricResult& metric : task->metrics)
      f(*task, metric);
  }
}

json finite(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

json optional_json(const std::optional<double>& value) {
  return value ? finite(*value) : json(nullptr);
}

json metric_json(const MetricResult& m) {
  return {{"metric", m.name},
          {"filter", m.filter},
          {"value", finite(m.estimate.value)},
          {"stderr", optional_json(m.estimate.standard_error)},
          {"interval_95", {finite(m.estimate.interval.low), finite(m.estimate.interval.high)}},
          {"higher_is_better", m.higher_is_better}};
}

json task_json(const TaskResult& task) {
  return {{"task", task.name},
          {"alias", task.alias},
          {"documents", task.documents},
          {"documents_in_all", task.of_documents},
          {"num_fewshot", task.num_fewshot},
          {"metrics", transformed(task.metrics, metric_json)}};
}

json group_json(const TaskGroup& group, const ModelScores& scores) {
  json metrics = json::array();
  for (const GroupScore& s : group_scores(group, scores.tasks)) {
    metrics.push_back({{"metric", s.name},
                       {"filter", s.filter},
                       {"value", finite(s.value)},
                       {"stderr", optional_json(s.standard_error)},
                       {"documents", s.documents}});
  }
  return {{"group", group.name},
          {"alias", group.alias},
          {"tasks", transformed(group.tasks, [&](size_t i) { return scores.tasks[i].name; })},
          {"metrics", metrics}};
}

json core_json(const ModelScores& scores) {
  json centered = json::object();
  for (const CoreResult& c : scores.core)
    centered[c.result.name] = c.centered;
  return {{"core_metric", core_metric(scores.core)}, {"centered_results", centered}};
}

json comparison_json(const TaskComparison& c) {
  json rows = json::array();
  size_t i = 0;
  for_each_metric(c.a, [&](const TaskResult& task, const MetricResult& metric) {
    const PairedTest& test = c.tests[i++];
    json row = {{"task", task.name},
                {"metric", metric.name},
                {"filter", metric.filter},
                {"difference", finite(test.difference)},
                {"interval_95", {finite(test.interval.low), finite(test.interval.high)}},
                {"p_bootstrap", test.p}};
    if (test.mcnemar_p) {
      row["p_mcnemar"] = *test.mcnemar_p;
      row["only_right"] = {test.only_a, test.only_b};
    }
    rows.push_back(std::move(row));
  });
  return {{"model", c.b.model},
          {"results", transformed(c.b.all(), [](const TaskResult* t) { return task_json(*t); })},
          {"paired", rows}};
}

std::string shared_text(const ModelScores& scores) {
  const Scorer::Counts& c = scores.counts;
  if (c.asked == 0) return "";
  return fmt::format(
      "{} tokens were computed for {} tokens of prompts and answers, because common prefixes are computed "
      "once.",
      format_thousands(c.computed), format_thousands(c.asked));
}

}  // namespace

std::vector<const TaskResult*> ModelScores::all() const {
  std::vector<const TaskResult*> out;
  for (const TaskResult& task : tasks)
    out.push_back(&task);
  for (const CoreResult& c : core)
    out.push_back(&c.result);
  return out;
}

TaskComparison compare_scores(const ModelScores& a, const ModelScores& b, ThreadPool& pool) {
  TaskComparison comparison{.a = a, .b = b, .tests = {}};
  std::vector<const MetricResult*> others;
  for_each_metric(b, [&](const TaskResult&, const MetricResult& metric) { others.push_back(&metric); });
  size_t i = 0;
  for_each_metric(a, [&](const TaskResult&, const MetricResult& metric) {
    comparison.tests.push_back(compare_paired(metric.aggregation, metric.items, others[i++]->items, pool));
  });
  return comparison;
}

TextTable score_table(const ModelScores& scores, const std::vector<TaskGroup>& groups) {
  TextTable table{
      .columns = {"task", "shots", "documents", "metric", "value", "std. error", "95 % interval", "centred"},
      .rows = {}};
  if (scores.core.empty()) table.columns.pop_back();
  const auto add = [&](const TaskResult& task, const std::string& centred) {
    bool first = true;
    for (const MetricResult& m : task.metrics) {
      table.rows.push_back({first ? task.alias : "", first ? std::to_string(task.num_fewshot) : "",
                            first ? documents_of(task) : "", metric_name(m.name, m.filter),
                            number(m.estimate.value), plus_minus(m.estimate.standard_error),
                            range(m.estimate.interval), centred});
      first = false;
    }
  };
  for (const TaskResult& task : scores.tasks)
    add(task, "");
  for (const CoreResult& c : scores.core)
    add(c.result, number(c.centered));
  for (const TaskGroup& group : groups) {
    for (const GroupScore& s : group_scores(group, scores.tasks)) {
      table.rows.push_back({fmt::format("{:{}}{}, all", "", 2 * group.depth, group.alias), "",
                            format_thousands(s.documents), metric_name(s.name, s.filter), number(s.value),
                            plus_minus(s.standard_error)});
    }
  }
  if (!scores.core.empty())
    table.rows.push_back({"CORE", "", "", "mean", "", "", "", number(core_metric(scores.core))});
  return table;
}

TextTable comparison_table(const TaskComparison& c) {
  TextTable table{.columns = {"task", "metric", c.a.model, c.b.model, "difference", "95 % interval",
                              "p, bootstrap", "p, McNemar"},
                  .rows = {}};
  std::vector<double> others;
  for_each_metric(c.b, [&](const TaskResult&, const MetricResult& m) { others.push_back(m.estimate.value); });
  size_t i = 0;
  for_each_metric(c.a, [&](const TaskResult& task, const MetricResult& m) {
    const PairedTest& test = c.tests[i];
    table.rows.push_back({task.alias, metric_name(m.name, m.filter), number(m.estimate.value),
                          number(others[i]), fmt::format("{:+.4f}", test.difference), range(test.interval),
                          p_value(test.p), test.mcnemar_p ? p_value(*test.mcnemar_p) : ""});
    ++i;
  });
  return table;
}

std::string scores_json(const ModelScores& scores, const std::vector<TaskGroup>& groups,
                        const TaskComparison* comparison) {
  json out = {{"model", scores.model},
              {"results", transformed(scores.all(), [](const TaskResult* t) { return task_json(*t); })},
              {"tokens", {{"computed", scores.counts.computed}, {"asked", scores.counts.asked}}},
              {"seconds", scores.seconds}};
  if (!groups.empty())
    out["groups"] = transformed(groups, [&](const TaskGroup& g) { return group_json(g, scores); });
  if (!scores.core.empty()) out["core"] = core_json(scores);
  if (comparison != nullptr) out["against"] = comparison_json(*comparison);
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string scores_page(const ModelScores& scores, const std::vector<TaskGroup>& groups,
                        const TaskComparison* comparison) {
  RunReport page{.title = "Evaluation of " + scores.model,
                 .subtitle = fmt::format("{}, {}", format_amount(std::ssize(scores.all()), "task"),
                                         format_duration(scores.seconds))};
  constexpr size_t kHeadlines = 4;
  if (!scores.core.empty())
    page.headlines.push_back({"CORE", number(core_metric(scores.core)), "mean of centred accuracies"});
  for_each_metric(scores, [&](const TaskResult& task, const MetricResult& m) {
    if (page.headlines.size() < kHeadlines && &m == &task.metrics.front())
      page.headlines.push_back({task.alias + ", " + metric_name(m.name, m.filter), number(m.estimate.value),
                                "95 %: " + range(m.estimate.interval)});
  });
  page.sections.push_back({.title = "Scores",
                           .text = "Standard errors are those of lm-evaluation-harness; intervals are "
                                   "computed by resampling documents (bootstrap). " +
                                   shared_text(scores),
                           .facts = {},
                           .tables = {{.caption = "", .table = score_table(scores, groups)}}});
  if (comparison != nullptr) {
    page.sections.push_back(
        {.title = "Against " + comparison->b.model,
         .text = "Both models are evaluated on the same documents. Intervals and p-values of the differences "
                 "are computed by resampling documents; McNemar's exact test counts documents that only one "
                 "model answers correctly.",
         .facts = {},
         .tables = {{.caption = "", .table = comparison_table(*comparison)}}});
  }
  return report_html(page);
}

}  // namespace gpt
