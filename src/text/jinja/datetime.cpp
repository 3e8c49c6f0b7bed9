#include "text/jinja/datetime.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"

namespace gpt {
namespace {

constexpr uint64_t kSubtype = 0x44;  // subtype of JSON binary values that store a PythonDatetime

PythonDatetime of_seconds(std::chrono::sys_seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return {.year = static_cast<int>(date.year()),
          .month = static_cast<unsigned>(date.month()),
          .day = static_cast<unsigned>(date.day()),
          .hour = clock.hours().count(),
          .minute = clock.minutes().count(),
          .second = clock.seconds().count()};
}

// Reads numeric fields from the beginning of a text.
class DateFields {
 public:
  explicit DateFields(std::string_view text) : rest_(text) {}

  bool ends() const { return rest_.empty(); }
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Reads a number with `digits` digits that is at most `most`. Returns -1 if there is no such number.
  int64_t number(size_t digits, int64_t most) {
    if (rest_.size() < digits) return -1;
    int64_t value = 0;
    for (const char c : rest_.substr(0, digits)) {
      if (c < '0' || c > '9') return -1;
      value = value * 10 + (c - '0');
    }
    rest_.remove_prefix(digits);
    return value > most ? -1 : value;
  }

 private:
  std::string_view rest_;
};

// Parses a time zone offset of the form Z, +HH, +HHMM or +HH:MM. Returns the offset in minutes, or nullopt
// for other text.
std::optional<int64_t> offset_minutes(DateFields& in) {
  if (in.ends()) return 0;
  if (in.take('Z')) return in.ends() ? std::optional<int64_t>(0) : std::nullopt;
  const bool negative = in.take('-');
  if (!negative && !in.take('+')) return std::nullopt;
  const int64_t hours = in.number(2, 23);
  int64_t minutes = 0;
  if (!in.ends()) {
    in.take(':');
    minutes = in.number(2, 59);
  }
  if (hours < 0 || minutes < 0 || !in.ends()) return std::nullopt;
  return (negative ? -1 : 1) * (60 * hours + minutes);
}

}  // namespace

std::optional<PythonDatetime> PythonDatetime::parse(std::string_view text) {
  DateFields in(text);
  const int64_t year = in.number(4, 9999);
  const int64_t month = in.take('-') ? in.number(2, 12) : -1;
  const int64_t day = in.take('-') ? in.number(2, 31) : -1;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (year < 1 || month < 1 || day < 1 || !date.ok()) return std::nullopt;
  int64_t hour = 0, minute = 0, second = 0, offset = 0;
  if (!in.ends()) {
    if (!in.take('T') && !in.take(' ')) return std::nullopt;
    hour = in.number(2, 23);
    if (in.take(':')) minute = in.number(2, 59);
    if (minute >= 0 && in.take(':')) second = in.number(2, 59);
    const auto minutes = offset_minutes(in);
    if (hour < 0 || minute < 0 || second < 0 || !minutes) return std::nullopt;
    offset = *minutes;
  }
  const std::chrono::sys_seconds time = std::chrono::sys_days(date) + std::chrono::hours(hour) +
                                        std::chrono::minutes(minute - offset) + std::chrono::seconds(second);
  const PythonDatetime made = of_seconds(time);
  return made.year < 1 || made.year > 9999 ? std::nullopt : std::optional(made);
}

std::string PythonDatetime::str() const {
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", year, month, day, hour, minute, second);
}

std::string PythonDatetime::repr() const {
  const std::string seconds = second == 0 ? "" : fmt::format(", {}", second);
  return fmt::format("datetime.datetime({}, {}, {}, {}, {}{})", year, month, day, hour, minute, seconds);
}

template <class Json>
Json PythonDatetime::json() const {
  const std::string text = str();
  return Json::binary(std::vector<uint8_t>(text.begin(), text.end()), kSubtype);
}

template <class Json>
PythonDatetime PythonDatetime::from_json(const Json& binary) {
  const auto& bytes = binary.get_binary();
  const auto made = parse(std::string(bytes.begin(), bytes.end()));
  if (!bytes.has_subtype() || bytes.subtype() != kSubtype || !made)
    fail("expected a date and time, found a binary value with different content");
  return *made;
}

template nlohmann::json PythonDatetime::json() const;
template nlohmann::ordered_json PythonDatetime::json() const;
template PythonDatetime PythonDatetime::from_json(const nlohmann::json&);
template PythonDatetime PythonDatetime::from_json(const nlohmann::ordered_json&);

}  // namespace gpt
