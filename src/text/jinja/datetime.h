#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

// Python's datetime.datetime without a zone, to the second. In JSON for a template it is a binary value.
struct PythonDatetime {
  int64_t year = 1, month = 1, day = 1, hour = 0, minute = 0, second = 0;

  // "2024-01-02", "2024-01-02T03", "... 03:04" or "... 03:04:05", those with hours optionally with Z or an
  // offset from UTC, which is subtracted: the texts that pyarrow's JSON reader takes for timestamps. Returns
  // nothing for others and for years outside 1 to 9999.
  static std::optional<PythonDatetime> parse(std::string_view text);

  std::string str() const;   // "2024-01-02 03:04:05"
  std::string repr() const;  // "datetime.datetime(2024, 1, 2, 3, 4, 5)"

  template <class Json>
  Json json() const;
  // Throws Error for a binary value of another kind.
  template <class Json>
  static PythonDatetime from_json(const Json& binary);

  bool operator==(const PythonDatetime&) const = default;
};

}  // namespace gpt
