#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/chart.h"
#include "report/metrics.h"

namespace gpt {

// The keys of metrics.jsonl that charts are made of. A record has "step" and any of the others.
inline constexpr std::string_view kStepKey = "step", kLossKey = "loss", kValLossKey = "val_loss",
                                  kTrainLossKey = "train_loss", kLrKey = "lr", kGradNormKey = "grad_norm",
                                  kSpeedKey = "tok_per_s";

// All records with a number for `key`, over the step.
ChartSeries metric_series(std::span<const MetricRecord> records, std::string_view key, std::string name,
                          SeriesStyle style, int colour);

// Training loss, raw and smoothed, validation loss, and training loss on as many fixed batches where there is
// one, with lines such as the entropy floor.
Chart loss_chart(std::span<const MetricRecord> records, std::vector<ReferenceLine> reference_lines);

// Learning rate, gradient norm (logarithmic) and tokens per second; a chart without any value is left out.
std::vector<Chart> rate_charts(std::span<const MetricRecord> records);

}  // namespace gpt
