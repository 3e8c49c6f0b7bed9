#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/file.h"

namespace gpt {

using MetricValue = std::variant<int64_t, double, std::string>;
using MetricRecord = std::vector<std::pair<std::string, MetricValue>>;  // keys in the order they are written

// One JSON object without the newline. JSON has no NaN or infinity: those numbers are written as the strings
// "NaN", "Infinity" and "-Infinity". Malformed UTF-8 in texts becomes U+FFFD.
std::string format_metric_line(const MetricRecord& record);

// A number by key; the three strings above count as the numbers they stand for. nullopt when there is none.
std::optional<double> metric_number(const MetricRecord& record, std::string_view key);

// The file DIR/metrics.jsonl, open for appending. Every line is one write, so a kill tears at most the last.
class MetricsLog {
 public:
  // Without resume_step starts an empty file. With it, continues the file there: lines of later steps, which
  // the resumed run will write again, and lines that are no JSON object are dropped (the rest stays byte for
  // byte; a line without "step" belongs to the step before it). The change is one atomic rename. A missing
  // file is empty. Throws Error naming the path.
  explicit MetricsLog(const std::string& dir, std::optional<int64_t> resume_step = std::nullopt);

  // Appends one line; on a full disk throws Error and leaves no part of the line behind.
  void append(const MetricRecord& record);

  // Forces all lines to the disk; call before a checkpoint counts as saved.
  void sync() { file_.sync(); }

 private:
  AppendFile file_;
};

// All records of a file. A torn last line is ignored; any other line that is no JSON object throws Error
// with its number. null becomes NaN, booleans 0 and 1; nested arrays and objects are left out.
std::vector<MetricRecord> read_metrics(const std::string& path);

}  // namespace gpt
