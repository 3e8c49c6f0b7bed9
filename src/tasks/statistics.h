#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace gpt {

// The contribution of one document to a metric. For a perplexity, `value` is a log-probability, and `weight`
// is the number of words or bytes that it covers. For f1 and matthews_corrcoef, `value` is the right answer,
// and `weight` is the chosen answer.
struct MetricItem {
  double value = 0;
  double weight = 1;
};

// Aggregates the chosen items to one number. An item may be chosen several times. Aggregations: mean, median,
// perplexity, weighted_perplexity, bits_per_byte, brier_score, f1, matthews_corrcoef. Source:
// lm-evaluation-harness 0.4.13.
double aggregate(const std::string& aggregation, std::span<const MetricItem> items,
                 std::span<const uint32_t> chosen);
// Aggregates all items.
double aggregate(const std::string& aggregation, std::span<const MetricItem> items);

// Computes a statistic of many bootstrap samples. Each sample consists of n item indices, chosen with
// replacement. Each of the seeds 0 .. seeds - 1 generates 1,000 samples, like Python's random.choices. The
// results do not depend on the number of threads.
using Statistic = std::function<double(std::span<const uint32_t> chosen)>;
std::vector<double> bootstrap(const Statistic& statistic, size_t n, int64_t seeds, ThreadPool& pool);

struct Interval {
  double low = 0, high = 0;
};
// Returns the central 95 % of the values: 2.5 % of them are below the interval and 2.5 % are above. Sorts the
// values.
Interval interval_95(std::vector<double>& values);

struct Estimate {
  double value = 0;
  std::optional<double> standard_error;  // as computed by the harness; empty if it computes none
  Interval interval;                     // 95 % confidence interval by bootstrap
};
// Computes a metric with its standard error and confidence interval. The standard error of a mean is computed
// from the sample variance. The standard error of a different aggregation is bootstrapped with `error_seeds`
// seeds if the harness also bootstraps this aggregation. The harness uses 100 seeds by default. A single item
// has no standard error.
Estimate estimate(const std::string& aggregation, std::span<const MetricItem> items, ThreadPool& pool,
                  int64_t error_seeds = 100);

// Comparison of two models on the same documents.
struct PairedTest {
  double difference = 0;            // metric of a minus metric of b
  Interval interval;                // 95 % confidence interval by bootstrap over documents
  double p = 1;                     // two-sided p-value from the same samples
  std::optional<double> mcnemar_p;  // exact test; only if every item is 0 or 1
  int64_t only_a = 0, only_b = 0;   // documents that only one model has right; set with mcnemar_p
};
PairedTest compare_paired(const std::string& aggregation, std::span<const MetricItem> a,
                          std::span<const MetricItem> b, ThreadPool& pool);

// Returns the p-value of the exact two-sided McNemar test. This is the probability that fair coin flips give
// a split that is at least as uneven as only_a and only_b.
double mcnemar(int64_t only_a, int64_t only_b);

}  // namespace gpt
