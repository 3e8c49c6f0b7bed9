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
// Keys are in the order in which they are written.
using MetricRecord = std::vector<std::pair<std::string, MetricValue>>;

// Returns a record as one JSON object without a newline. JSON has no NaN or infinity, so these values are
// written as the strings "NaN", "Infinity" and "-Infinity". Malformed UTF-8 in texts becomes U+FFFD.
std::string format_metric_line(const MetricRecord& record);

// Returns the number with the given key. The strings "NaN", "Infinity" and "-Infinity" are read as numbers.
// Returns nullopt if there is no number.
std::optional<double> metric_number(const MetricRecord& record, std::string_view key);

// The file DIR/metrics.jsonl, open for appending. Every line is a single write, so killing the process can
// damage only the last line.
class MetricsLog {
 public:
  // Without resume_step, starts an empty file. With resume_step, continues the existing file. Drops the lines
  // of later steps, because the resumed run writes these lines again. Also drops lines that are not JSON
  // objects. All other lines stay unchanged. A line without "step" belongs to the step of the previous line.
  // The file is replaced by an atomic rename. A missing file counts as empty. Throws Error naming the path.
  explicit MetricsLog(const std::string& dir, std::optional<int64_t> resume_step = std::nullopt);

  // Appends one line. On a full disk, throws Error and leaves no part of the line in the file.
  void append(const MetricRecord& record);

  // Flushes all lines to disk. Must be called before a checkpoint counts as saved.
  void sync() { file_.sync(); }

 private:
  AppendFile file_;
};

// Reads all records of a file. Ignores an incomplete last line. Throws Error with the line number for any
// other line that is not a JSON object. null becomes NaN, booleans become 0 and 1, and nested arrays and
// objects are dropped.
std::vector<MetricRecord> read_metrics(const std::string& path);

}  // namespace gpt
