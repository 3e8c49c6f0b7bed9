#include "finetune/scores.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/ranges.h"
#include "base/utf8.h"
#include "report/table.h"

namespace gpt {
namespace {

constexpr int64_t kNameWidth = 16;

struct Sums {
  std::vector<int64_t> truths, answers;
  int64_t right = 0, all = 0;
};

Sums sums_of(const Confusion& m) {
  const auto n = static_cast<size_t>(m.classes());
  Sums s{std::vector<int64_t>(n), std::vector<int64_t>(n)};
  for (int64_t t = 0; t < m.classes(); ++t) {
    for (int64_t a = 0; a < m.classes(); ++a) {
      s.truths[static_cast<size_t>(t)] += m(t, a);
      s.answers[static_cast<size_t>(a)] += m(t, a);
      s.all += m(t, a);
    }
    s.right += m(t, t);
  }
  return s;
}

double ratio(double a, double b) {
  return b > 0 ? a / b : 0;
}

std::vector<double> ranks_of(std::span<const double> x) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return x[i]; });
  std::vector<double> ranks(x.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && x[order[end]] == x[order[begin]])
      ++end;
    for (size_t i = begin; i < end; ++i)
      ranks[order[i]] = (static_cast<double>(begin + end) + 1) / 2;
  }
  return ranks;
}

std::string short_name(const std::string& name) {
  return printable_text(name, kNameWidth);
}

// Lists the most frequent misclassifications, one per line.
std::string mistakes_text(const Confusion& m, std::span<const std::string> names, int64_t most) {
  std::vector<std::pair<int64_t, int64_t>> cells;
  for (int64_t t = 0; t < m.classes(); ++t) {
    for (int64_t a = 0; a < m.classes(); ++a) {
      if (t != a && m(t, a) > 0) cells.emplace_back(t, a);
    }
  }
  std::ranges::stable_sort(cells, std::greater(), [&](const auto& c) { return m(c.first, c.second); });
  cells.resize(std::min(cells.size(), static_cast<size_t>(most)));
  return sum_of(cells, [&](const auto& c) {
    return fmt::format("{} predicted as {}: {}\n", short_name(names[static_cast<size_t>(c.first)]),
                       short_name(names[static_cast<size_t>(c.second)]), m(c.first, c.second));
  });
}

}  // namespace

double accuracy(const Confusion& m) {
  const Sums s = sums_of(m);
  return ratio(static_cast<double>(s.right), static_cast<double>(s.all));
}

double macro_f1(const Confusion& m) {
  const Sums s = sums_of(m);
  double sum = 0, occurring = 0;
  for (int64_t k = 0; k < m.classes(); ++k) {
    const auto at = static_cast<size_t>(k);
    const auto both = static_cast<double>(s.truths[at] + s.answers[at]);
    sum += ratio(2 * static_cast<double>(m(k, k)), both);
    occurring += both > 0 ? 1 : 0;
  }
  return ratio(sum, occurring);
}

double matthews(const Confusion& m) {
  const Sums s = sums_of(m);
  const auto all = static_cast<double>(s.all);
  double both = 0, truths = 0, answers = 0;
  for (size_t k = 0; k < s.truths.size(); ++k) {
    const auto t = static_cast<double>(s.truths[k]), a = static_cast<double>(s.answers[k]);
    both += t * a;
    truths += t * t;
    answers += a * a;
  }
  return ratio(static_cast<double>(s.right) * all - both,
               std::sqrt((all * all - truths) * (all * all - answers)));
}

double pearson(std::span<const double> x, std::span<const double> y) {
  const auto n = static_cast<double>(x.size());
  const double mean_x = ratio(sum_of(x), n), mean_y = ratio(sum_of(y), n);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  return ratio(xy, std::sqrt(xx) * std::sqrt(yy));
}

double spearman(std::span<const double> x, std::span<const double> y) {
  return pearson(ranks_of(x), ranks_of(y));
}

std::string confusion_text(const Confusion& m, std::span<const std::string> names, int64_t most) {
  if (m.classes() > most) return mistakes_text(m, names, most);
  TextTable table{.columns = {"label \\ prediction"}, .rows = {}};
  for (const std::string& name : names)
    table.columns.push_back(short_name(name));
  for (int64_t t = 0; t < m.classes(); ++t) {
    table.rows.push_back({short_name(names[static_cast<size_t>(t)])});
    for (int64_t a = 0; a < m.classes(); ++a)
      table.rows.back().push_back(std::to_string(m(t, a)));
  }
  return format_table(table);
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text)
    cell += c == '"' ? "\"\"" : std::string(1, c);
  return cell + "\"";
}

}  // namespace gpt
