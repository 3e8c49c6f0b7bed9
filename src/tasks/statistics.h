#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace gpt {

// What a metric has of one document. Of perplexities a log-probability and how many words or bytes it is of;
// of f1 and matthews_corrcoef the right and the chosen answer.
struct MetricItem {
  double value = 0;
  double weight = 1;
};

// One number of the items that are chosen, some perhaps several times: mean, median, perplexity,
// weighted_perplexity, bits_per_byte, brier_score, f1, matthews_corrcoef. Source: lm-evaluation-harness
// 0.4.13.
double aggregate(const std::string& aggregation, std::span<const MetricItem> items,
                 std::span<const uint32_t> chosen);
// Of all items.
double aggregate(const std::string& aggregation, std::span<const MetricItem> items);

// A statistic over draws of n items with replacement, 1,000 with each of the seeds 0, 1, ..., by Python's
// random.choices. The order of the draws does not depend on the number of threads.
using Statistic = std::function<double(std::span<const uint32_t> chosen)>;
std::vector<double> bootstrap(const Statistic& statistic, size_t n, int64_t seeds, ThreadPool& pool);

struct Interval {
  double low = 0, high = 0;
};
// 95 % of the values, 2.5 % of them below and above. Sorts them.
Interval interval_95(std::vector<double>& values);

struct Estimate {
  double value = 0;
  std::optional<double> standard_error;  // as the harness says; none where it has none
  Interval interval;                     // by bootstrap, 95 %
};
// Standard errors of means from the sample's variance, of the other aggregations that the harness draws for
// from so many seeds, 100 by its default; none of a single item.
Estimate estimate(const std::string& aggregation, std::span<const MetricItem> items, ThreadPool& pool,
                  int64_t error_seeds = 100);

// Two models on the same documents.
struct PairedTest {
  double difference = 0;            // of a from b
  Interval interval;                // of it, by bootstrap over documents, 95 %
  double p = 1;                     // two-sided, by the same draws: of no difference
  std::optional<double> mcnemar_p;  // the exact test, where every item is 0 or 1
  int64_t only_a = 0, only_b = 0;   // documents that only one has right, with mcnemar_p
};
PairedTest compare_paired(const std::string& aggregation, std::span<const MetricItem> a,
                          std::span<const MetricItem> b, ThreadPool& pool);

// The exact two-sided McNemar test: the probability of a split as uneven as this one of fair coins.
double mcnemar(int64_t only_a, int64_t only_b);

}  // namespace gpt
