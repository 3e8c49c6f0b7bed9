#include "report/metrics.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"

namespace gpt {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 31;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Json json_of(const MetricValue& value) {
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr) return std::visit([](const auto& v) { return Json(v); }, value);
  if (std::isnan(*number)) return "NaN";
  if (std::isinf(*number)) return *number > 0 ? "Infinity" : "-Infinity";
  return *number;
}

// Parses a line. Returns false if the line is not a JSON object. Nested values are dropped while parsing,
// because copying a very deep tree would overflow the stack.
bool parse_object(std::string_view line, Json& object) {
  const auto keep = [](int depth, Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    return !opens || depth == 0;
  };
  object = Json::parse(line, keep, /*allow_exceptions=*/false);
  return object.is_object();
}

std::optional<MetricValue> metric_value(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_null()) return kNaN;
  if (json.is_boolean()) return int64_t{json.get<bool>()};
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
    return json.get<double>();
  }
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  return std::nullopt;
}

MetricRecord to_record(const Json& object) {
  MetricRecord record;
  for (const auto& [key, json] : object.items()) {
    if (auto value = metric_value(json)) record.emplace_back(key, std::move(*value));
  }
  return record;
}

std::string lines_up_to(std::string_view content, int64_t last_step) {
  std::string kept;
  double step = -kInfinity;
  for (const std::string_view line : lines_of(content)) {
    Json object;
    if (!parse_object(line, object)) continue;
    step = metric_number(to_record(object), "step").value_or(step);
    if (step <= static_cast<double>(last_step)) kept.append(line).push_back('\n');
  }
  return kept;
}

// Returns the path of the log in `dir`. First removes the lines that a resumed run will write again.
std::string prepared_path(const std::string& dir, std::optional<int64_t> resume_step) {
  std::string path = (std::filesystem::path(dir) / "metrics.jsonl").string();
  if (!resume_step || !std::filesystem::exists(path)) return path;
  const std::string content = read_file(path, kMaxFileBytes);
  const std::string kept = lines_up_to(content, *resume_step);
  if (kept != content) write_file_atomic(path, kept);
  return path;
}

// Throws Error for an invalid step number, because steps are counted and drawn in charts.
void require_step(const MetricRecord& record, const std::string& path, int64_t line) {
  constexpr double kMost = 1e15;
  const auto step = metric_number(record, "step");
  if (!step || (*step >= 0 && *step <= kMost && *step == std::trunc(*step))) return;
  fail("{} line {}: \"step\": expected an integer from 0 to {:g}, found {}; remove the line to read the rest",
       path, line, kMost, std::isnan(*step) ? "null or NaN" : fmt::format("{:g}", *step));
}

}  // namespace

std::string format_metric_line(const MetricRecord& record) {
  Json object = Json::object();
  for (const auto& [key, value] : record)
    object[key] = json_of(value);
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<double> metric_number(const MetricRecord& record, std::string_view key) {
  for (const auto& [name, value] : record) {
    if (name != key) continue;
    if (const auto* number = std::get_if<double>(&value)) return *number;
    if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
    const std::string& text = std::get<std::string>(value);
    if (text == "NaN") return kNaN;
    if (text == "Infinity") return kInfinity;
    if (text == "-Infinity") return -kInfinity;
    return std::nullopt;
  }
  return std::nullopt;
}

MetricsLog::MetricsLog(const std::string& dir, std::optional<int64_t> resume_step)
    : file_(prepared_path(dir, resume_step), resume_step ? AppendFile::Mode::keep : AppendFile::Mode::empty) {
}

void MetricsLog::append(const MetricRecord& record) {
  file_.append(format_metric_line(record) + "\n");
}

std::vector<MetricRecord> read_metrics(const std::string& path) {
  const std::string content = read_file(path, kMaxFileBytes);
  std::vector<MetricRecord> records;
  int64_t number = 0;
  for (const std::string_view line : lines_of(content)) {
    ++number;
    Json object;
    // True if the line ends with a newline.
    const bool complete = line.end() != std::string_view(content).end();
    if (parse_object(line, object)) {
      records.push_back(to_record(object));
      require_step(records.back(), path, number);
    } else if (complete && !line.empty()) {
      fail(
          "{} line {}: expected one JSON object with numbers below 1.8e308; remove the line to read the rest",
          path, number);
    }
  }
  return records;
}

}  // namespace gpt
