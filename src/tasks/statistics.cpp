#include "tasks/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "base/ranges.h"
#include "tasks/python_random.h"

namespace gpt {
namespace {

constexpr int64_t kDrawsPerSeed = 1000;
constexpr int64_t kIntervalSeeds = 10;

struct Sums {
  double values = 0, weights = 0;
};

Sums sums_of(std::span<const MetricItem> items, std::span<const uint32_t> chosen) {
  Sums sums;
  for (const uint32_t i : chosen) {
    sums.values += items[i].value;
    sums.weights += items[i].weight;
  }
  return sums;
}

double median(std::span<const MetricItem> items, std::span<const uint32_t> chosen) {
  std::vector<double> values = transformed(chosen, [&](uint32_t i) { return items[i].value; });
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Returns the F1 score of answer 1 among the answers 0 and 1. Returns 0 if answer 1 is never right and never
// chosen.
double f1(std::span<const MetricItem> items, std::span<const uint32_t> chosen) {
  double both = 0, right = 0, said = 0;
  for (const uint32_t i : chosen) {
    both += items[i].value == 1 && items[i].weight == 1 ? 1 : 0;
    right += items[i].value == 1 ? 1 : 0;
    said += items[i].weight == 1 ? 1 : 0;
  }
  return right + said == 0 ? 0 : 2 * both / (right + said);
}

// Returns the Matthews correlation coefficient, in Gorodkin's form for any number of different answers.
double matthews(std::span<const MetricItem> items, std::span<const uint32_t> chosen) {
  std::map<double, double> right, said;
  double same = 0;
  for (const uint32_t i : chosen) {
    right[items[i].value] += 1;
    said[items[i].weight] += 1;
    same += items[i].value == items[i].weight ? 1 : 0;
  }
  const auto n = static_cast<double>(chosen.size());
  double both = 0, squares_right = 0, squares_said = 0;
  for (const auto& [answer, count] : right) {
    squares_right += count * count;
    const auto other = said.find(answer);
    if (other != said.end()) both += count * other->second;
  }
  for (const auto& [answer, count] : said)
    squares_said += count * count;
  const double spread = (n * n - squares_said) * (n * n - squares_right);
  return spread == 0 ? 0 : (same * n - both) / std::sqrt(spread);
}

double sample_deviation(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double x : values)
    squares += (x - mean) * (x - mean);
  return std::sqrt(squares / (n - 1));
}

bool drawn_for(const std::string& aggregation) {
  return aggregation == "median" || aggregation == "perplexity" || aggregation == "f1" ||
         aggregation == "matthews_corrcoef";
}

}  // namespace

double aggregate(const std::string& aggregation, std::span<const MetricItem> items,
                 std::span<const uint32_t> chosen) {
  GPT_ASSERT(!chosen.empty());
  if (aggregation == "median") return median(items, chosen);
  if (aggregation == "f1") return f1(items, chosen);
  if (aggregation == "matthews_corrcoef") return matthews(items, chosen);
  const Sums sums = sums_of(items, chosen);
  const double mean = sums.values / static_cast<double>(chosen.size());
  if (aggregation == "perplexity") return std::exp(-mean);
  if (aggregation == "weighted_perplexity") return std::exp(-sums.values / sums.weights);
  if (aggregation == "bits_per_byte") return -sums.values / sums.weights / std::numbers::ln2;
  GPT_ASSERT(aggregation == "mean" || aggregation == "brier_score");
  return mean;
}

double aggregate(const std::string& aggregation, std::span<const MetricItem> items) {
  std::vector<uint32_t> all(items.size());
  std::iota(all.begin(), all.end(), 0);
  return aggregate(aggregation, items, all);
}

std::vector<double> bootstrap(const Statistic& statistic, size_t n, int64_t seeds, ThreadPool& pool) {
  std::vector<double> results(static_cast<size_t>(seeds * kDrawsPerSeed));
  std::vector<std::vector<uint32_t>> chosen(static_cast<size_t>(pool.size()), std::vector<uint32_t>(n));
  pool.parallel_for(seeds, [&](int64_t seed, int thread) {
    PythonRandom random(static_cast<uint64_t>(seed));
    std::vector<uint32_t>& mine = chosen[static_cast<size_t>(thread)];
    for (int64_t draw = 0; draw < kDrawsPerSeed; ++draw) {
      for (uint32_t& i : mine)
        i = static_cast<uint32_t>(random.random() * static_cast<double>(n));
      results[static_cast<size_t>(seed * kDrawsPerSeed + draw)] = statistic(mine);
    }
  });
  return results;
}

Interval interval_95(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
  };
  return {at(0.025), at(0.975)};
}

Estimate estimate(const std::string& aggregation, std::span<const MetricItem> items, ThreadPool& pool,
                  int64_t error_seeds) {
  Estimate e{.value = aggregate(aggregation, items), .standard_error = {}, .interval = {}};
  const bool drawn = drawn_for(aggregation) && items.size() > 1;
  std::vector<double> draws =
      bootstrap([&](std::span<const uint32_t> chosen) { return aggregate(aggregation, items, chosen); },
                items.size(), drawn ? error_seeds : kIntervalSeeds, pool);
  if (drawn) e.standard_error = sample_deviation(draws);
  if (aggregation == "mean" && items.size() > 1) {
    e.standard_error = sample_deviation(transformed(items, &MetricItem::value)) /
                       std::sqrt(static_cast<double>(items.size()));
  }
  e.interval = interval_95(draws);
  return e;
}

double mcnemar(int64_t only_a, int64_t only_b) {
  const int64_t n = only_a + only_b, few = std::min(only_a, only_b);
  const auto log_factorial = [](int64_t k) { return std::lgamma(static_cast<double>(k) + 1); };
  double p = 0;
  for (int64_t k = 0; k <= few; ++k) {
    p += std::exp(log_factorial(n) - log_factorial(k) - log_factorial(n - k) -
                  static_cast<double>(n) * std::numbers::ln2);
  }
  return std::min(1.0, 2 * p);
}

PairedTest compare_paired(const std::string& aggregation, std::span<const MetricItem> a,
                          std::span<const MetricItem> b, ThreadPool& pool) {
  GPT_ASSERT(a.size() == b.size() && !a.empty());
  const auto difference = [&](std::span<const uint32_t> chosen) {
    return aggregate(aggregation, a, chosen) - aggregate(aggregation, b, chosen);
  };
  PairedTest test{.difference = aggregate(aggregation, a) - aggregate(aggregation, b), .interval = {}};
  std::vector<double> draws = bootstrap(difference, a.size(), kIntervalSeeds, pool);
  const auto at_most = std::count_if(draws.begin(), draws.end(), [](double d) { return d <= 0; });
  const auto at_least = std::count_if(draws.begin(), draws.end(), [](double d) { return d >= 0; });
  test.p = std::min(1.0, 2.0 * static_cast<double>(std::min(at_most, at_least) + 1) /
                             static_cast<double>(std::ssize(draws) + 1));
  test.interval = interval_95(draws);
  const auto binary = [](const MetricItem& x) { return x.weight == 1 && (x.value == 0 || x.value == 1); };
  if (aggregation == "mean" && std::all_of(a.begin(), a.end(), binary) &&
      std::all_of(b.begin(), b.end(), binary)) {
    for (size_t i = 0; i < a.size(); ++i) {
      test.only_a += a[i].value > b[i].value ? 1 : 0;
      test.only_b += b[i].value > a[i].value ? 1 : 0;
    }
    test.mcnemar_p = mcnemar(test.only_a, test.only_b);
  }
  return test;
}

}  // namespace gpt
