#include "finetune/labels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "base/suggest.h"

namespace gpt {
namespace {

constexpr size_t kMaxLabels = 65536, kShown = 10;

std::optional<double> number_of(const std::string& text) {
  const std::optional<double> number = parse_number<double>(text);
  return number && std::isfinite(static_cast<float>(*number)) ? number : std::nullopt;
}

bool is_whole(const std::string& text) {
  return parse_number<int64_t>(text).has_value();
}

float value_of(const Example& example, TaskKind kind, const Labels& labels) {
  if (kind == TaskKind::choose) return *parse_number<float>(*example.label);
  if (const std::optional<float> value = labels.value(*example.label)) return *value;
  if (labels.numbers)
    fail_record("{}: expected the label to be a number, found {}", example.place, printable(*example.label));
  fail_record("{}: unknown label {}; the labels of the head are {}{}", example.place,
              printable(*example.label), format_list(transformed(labels.names, printable), kShown),
              did_you_mean(*example.label, labels.names));
}

// Labels such as "1" and "1.0" are almost certainly meant to be the same class.
void require_distinct_numbers(const std::set<std::string>& labels) {
  std::map<double, std::string> numbers;
  for (const std::string& label : labels) {
    const std::optional<double> number = parse_number<double>(label);
    if (!number || !std::isfinite(*number)) continue;
    const auto [known, is_new] = numbers.emplace(*number, label);
    if (!is_new)
      fail("the labels {} and {} are the same number; write both in the same way", printable(known->second),
           printable(label));
  }
}

}  // namespace

std::optional<float> Labels::value(const std::string& label) const {
  if (numbers) {
    const std::optional<double> number = number_of(label);
    return number ? std::optional(static_cast<float>(*number)) : std::nullopt;
  }
  const auto found = std::ranges::find(names, label);
  if (found == names.end()) return {};
  return static_cast<float>(found - names.begin());
}

Labels collect_labels(const std::vector<Example>& examples, TaskKind kind) {
  if (kind == TaskKind::choose) return {};
  std::set<std::string> known;
  for (const Example& example : examples)
    known.insert(*example.label);
  const auto all = [&](auto is) { return std::ranges::all_of(known, is); };
  if (kind == TaskKind::similar && all([](const std::string& x) { return number_of(x).has_value(); }))
    return {.numbers = true, .names = {}};
  require_distinct_numbers(known);
  if (known.size() < 2 || known.size() > kMaxLabels) {
    fail("expected examples with 2 to {} different labels, found {}: {}", kMaxLabels, known.size(),
         format_list(transformed(known, printable), kShown));
  }
  Labels labels{.numbers = false, .names = {known.begin(), known.end()}};
  if (all(is_whole)) std::ranges::stable_sort(labels.names, {}, parse_number<int64_t>);
  return labels;
}

std::vector<float> label_values(ExampleSet& set, TaskKind kind, const Labels& labels, bool skip_bad) {
  std::vector<float> values;
  std::vector<Example> good;
  for (Example& example : set.examples) {
    try {
      values.push_back(value_of(example, kind, labels));
      good.push_back(std::move(example));
    } catch (const RecordError& error) {
      if (!skip_bad) throw;
      if (set.skipped++ == 0) set.first_problem = error.what();
    }
  }
  set.examples = std::move(good);
  if (values.empty()) fail("no example has a label of the head; {}", set.first_problem);
  return values;
}

}  // namespace gpt
