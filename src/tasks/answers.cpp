#include "tasks/answers.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/ranges.h"
#include "tasks/python_text.h"
#include "text/letter_case.h"

namespace gpt {
namespace {

constexpr const char* kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr const char* kDigits = "0123456789";

std::string matched(const FilterStep& step, const std::string& text, Patterns& patterns) {
  const auto matches = patterns.of(step.regex_pattern).find_all(text);
  if (matches.empty()) return step.fallback;
  const auto n = std::ssize(matches);
  const int64_t at = step.group_select < 0 ? n + step.group_select : step.group_select;
  if (at < 0 || at >= n)
    fail("filter regex: expected at least {} matches for group_select, found {}",
         step.group_select < 0 ? -step.group_select : step.group_select + 1, n);
  const std::vector<std::string>& groups = matches[static_cast<size_t>(at)];
  if (groups.size() == 1) return std::string(strip(groups[0]));
  const auto group = std::find_if(groups.begin(), groups.end(), [](const auto& g) { return !g.empty(); });
  return group == groups.end() ? step.fallback : std::string(strip(*group));
}

std::string mapped(const FilterStep& step, const std::string& text) {
  const auto found = step.mapping.find(text);
  if (found != step.mapping.end()) return found->second;
  if (!step.default_value) fail("filter map: expected a default_value for \"{}\", found none", text);
  return *step.default_value;
}

// Returns the most frequent text. If several texts are equally frequent, returns the first of them.
std::string majority(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> counts;
  for (const std::string& text : texts)
    ++counts[text];
  return *std::max_element(texts.begin(), texts.end(),
                           [&](const auto& a, const auto& b) { return counts[a] < counts[b]; });
}

std::vector<double> softmax(std::span<const double> x) {
  const double most = *std::max_element(x.begin(), x.end());
  std::vector<double> out = transformed(x, [&](double v) { return std::exp(v - most); });
  const double sum = sum_of(out);
  for (double& p : out)
    p /= sum;
  return out;
}

int64_t arg_max(std::span<const double> x) {
  return std::max_element(x.begin(), x.end()) - x.begin();
}

double brier(std::span<const double> logprobs, int64_t gold) {
  double sum = 0;
  const std::vector<double> p = softmax(logprobs);
  for (size_t i = 0; i < p.size(); ++i) {
    const double d = p[i] - (static_cast<int64_t>(i) == gold ? 1 : 0);
    sum += d * d;
  }
  return sum;
}

// The data of one document from which the metrics of multiple-choice tasks are computed.
struct ChoiceView {
  const TaskPrompt& prompt;
  std::span<const Score> scores;
  std::vector<double> logprobs;  // log-probabilities of the choices
  bool multiple_targets;

  template <class Length>
  std::vector<double> per(Length length) const {
    std::vector<double> out = logprobs;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] /= static_cast<double>(length(prompt.choices[i]));
    return out;
  }
  std::vector<double> beyond_unconditional() const {
    std::vector<double> out = logprobs;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] -= scores[out.size() + i].logprob;
    return out;
  }
  bool right(int64_t choice) const {
    return std::find(prompt.gold.begin(), prompt.gold.end(), choice) != prompt.gold.end();
  }
  bool greedy() const {
    return std::any_of(prompt.gold.begin(), prompt.gold.end(),
                       [&](int64_t g) { return g >= 0 && scores[static_cast<size_t>(g)].greedy; });
  }
  int64_t single_gold(const std::string& metric) const {
    if (multiple_targets || prompt.gold.front() < 0)
      fail("{}: expected one correct choice, found {}", metric, multiple_targets ? "several" : "none");
    return prompt.gold.front();
  }
};

MetricItem choice_item(const std::string& metric, const ChoiceView& view) {
  const auto hit = [&](std::span<const double> values) {
    return MetricItem{view.right(arg_max(values)) ? 1.0 : 0.0};
  };
  if (metric == "acc") return hit(view.logprobs);
  if (metric == "acc_norm") return hit(view.per([](const std::string& c) { return characters(c); }));
  if (metric == "acc_bytes") return hit(view.per([](const std::string& c) { return c.size(); }));
  if (metric == "acc_mutual_info") return hit(view.beyond_unconditional());
  if (metric == "exact_match") return {view.greedy() ? 1.0 : 0.0};
  const int64_t gold = view.single_gold(metric);
  if (metric == "brier_score") return {brier(view.logprobs, gold)};
  const int64_t chosen = arg_max(view.logprobs);
  if (metric == "f1" && (gold > 1 || chosen > 1))
    fail("f1: expected the choices 0 and 1, found {}", std::max(gold, chosen));
  return {static_cast<double>(gold), static_cast<double>(chosen)};  // for f1 and mcc
}

std::string plain(const MetricRule& rule, std::string text, Patterns& patterns) {
  for (const std::string& pattern : rule.regexes_to_ignore)
    text = patterns.of(pattern).remove_from(text);
  if (rule.ignore_case) text = in_case(text, LetterCase::lower);
  if (rule.ignore_punctuation) text = without_any(text, kPunctuation);
  if (rule.ignore_numbers) text = without_any(text, kDigits);
  return text;
}

}  // namespace

const PythonRegex& Patterns::of(const std::string& pattern) {
  return compiled_.try_emplace(pattern, pattern).first->second;
}

std::string filtered_answer(const FilterRule& filter, std::vector<std::string> texts, Patterns& patterns) {
  bool one = false;
  for (const FilterStep& step : filter.steps) {
    if (one) fail("filter {}: expected no step after take_first, found {}", filter.name, step.function);
    if (step.function == "take_first") {
      one = true;
    } else if (step.function == "take_first_k") {
      if (std::ssize(texts) < step.k)
        fail(
            "filter {}: expected at least {} responses for take_first_k, found {}; set repeats to a larger "
            "number",
            filter.name, step.k, texts.size());
      texts.resize(static_cast<size_t>(step.k));
    } else if (step.function == "majority_vote") {
      texts = {majority(texts)};
    } else {
      for (std::string& text : texts) {
        if (step.function == "regex") text = matched(step, text, patterns);
        if (step.function == "remove_whitespace") text = std::string(strip(text));
        if (step.function == "lowercase") text = in_case(text, LetterCase::lower);
        if (step.function == "uppercase") text = in_case(text, LetterCase::upper);
        if (step.function == "map") text = mapped(step, text);
      }
    }
  }
  if (!one) fail("filter {}: expected take_first as the last step, found none", filter.name);
  return texts.front();
}

std::vector<MetricItem> choice_items(const TaskConfig& config, const TaskPrompt& prompt,
                                     std::span<const Score> scores, bool multiple_targets) {
  const ChoiceView view{.prompt = prompt,
                        .scores = scores,
                        .logprobs = transformed(scores.first(prompt.choices.size()), &Score::logprob),
                        .multiple_targets = multiple_targets};
  return transformed(config.metrics, [&](const MetricRule& m) { return choice_item(m.name, view); });
}

std::vector<MetricItem> likelihood_items(const TaskConfig& config, const Score& score) {
  return transformed(config.metrics, [&](const MetricRule& metric) {
    return MetricItem{metric.name == "perplexity" ? score.logprob : score.greedy ? 1.0 : 0.0};
  });
}

std::vector<MetricItem> rolling_items(const TaskConfig& config, const std::string& text, double logprob) {
  return transformed(config.metrics, [&](const MetricRule& metric) {
    const auto units = metric.name == "word_perplexity" ? count_words(text) : std::ssize(text);
    return MetricItem{logprob, static_cast<double>(units)};
  });
}

std::vector<MetricItem> answer_items(const TaskConfig& config, const TaskPrompt& prompt,
                                     const std::string& answer, Patterns& patterns) {
  // All metrics of generation tasks are exact_match.
  return transformed(config.metrics, [&](const MetricRule& metric) {
    const std::string said = plain(metric, answer, patterns);
    const bool hit = std::any_of(prompt.targets.begin(), prompt.targets.end(),
                                 [&](const auto& target) { return plain(metric, target, patterns) == said; });
    return MetricItem{hit ? 1.0 : 0.0};
  });
}

}  // namespace gpt
