#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

// Python's datetime.datetime without a time zone, with a resolution of one second. In the JSON context of a
// template, a PythonDatetime is a binary value.
struct PythonDatetime {
  int64_t year = 1, month = 1, day = 1, hour = 0, minute = 0, second = 0;

  // Parses "2024-01-02", "2024-01-02T03", "... 03:04" or "... 03:04:05". A time may be followed by Z or by an
  // offset from UTC, which is subtracted. pyarrow's JSON reader converts exactly these texts to timestamps.
  // Returns nullopt for other texts and for years outside 1 to 9999.
  static std::optional<PythonDatetime> parse(std::string_view text);

  std::string str() const;   // "2024-01-02 03:04:05"
  std::string repr() const;  // "datetime.datetime(2024, 1, 2, 3, 4, 5)"

  template <class Json>
  Json json() const;
  // Throws Error for a binary value of a different kind.
  template <class Json>
  static PythonDatetime from_json(const Json& binary);

  bool operator==(const PythonDatetime&) const = default;
};

}  // namespace gpt
