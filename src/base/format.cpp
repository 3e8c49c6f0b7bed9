#include "base/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace gpt {
namespace {

constexpr double kMostDigits = 1e15;  // larger numbers are written with an exponent

constexpr double kMinute = 60, kHour = 3600, kDay = 86400;

// Returns `value` with three significant digits and the largest unit that keeps the value at 1 or above. The
// unit is chosen after rounding, so 999,999 gives "1.00 M" instead of "1000 k".
std::string with_unit(double value, double base, std::span<const char* const> units) {
  if (!(value >= 0) || !std::isfinite(value)) return "?";
  size_t unit = 0;
  while (unit + 1 < units.size() && value >= (unit == 0 ? base - 0.5 : 999.5)) {
    value /= base;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f}{}", value, units[0]);
  if (value >= kMostDigits) return fmt::format("{:.3g} {}", value, units[unit]);
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

std::string two_units(double total, double large, const char* large_name, double small,
                      const char* small_name) {
  const double first = std::floor(total / large);
  const double second = std::floor((total - first * large) / small);
  return fmt::format("{:.0f} {} {:02.0f} {}", first, large_name, second, small_name);
}

}  // namespace

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || !std::isfinite(seconds)) return "?";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const double rounded = std::round(seconds);
  if (rounded < kMinute) return fmt::format("{:.0f} s", rounded);
  if (rounded < kHour) return two_units(rounded, kMinute, "min", 1, "s");
  if (rounded < kDay) return two_units(rounded, kHour, "h", kMinute, "min");
  return two_units(rounded, kDay, "d", kHour, "h");
}

std::string format_count(double count) {
  static constexpr std::array<const char*, 6> kUnits = {"", "k", "M", "G", "T", "P"};
  return with_unit(count, 1000, kUnits);
}

std::string format_rate(double per_second) {
  return per_second >= 0 && per_second < 99.95 ? fmt::format("{:.1f}", per_second) : format_count(per_second);
}

std::string format_bytes(double bytes) {
  static constexpr std::array<const char*, 6> kUnits = {" B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return with_unit(bytes, 1024, kUnits);
}

std::string format_thousands(int64_t count) {
  std::string digits = fmt::format("{}", count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string format_percent(double share) {
  if (!std::isfinite(share)) return "?";
  return fmt::format("{:.1f} %", share * 100);
}

std::string format_number(double value) {
  return std::isnan(value) ? "NaN" : fmt::format("{}", value);
}

std::string format_loss(double value) {
  return std::abs(value) >= kMostDigits ? fmt::format("{:.5g}", value) : fmt::format("{:.4f}", value);
}

std::string format_perplexity(double value) {
  if (value >= kMostDigits) return fmt::format("{:.5g}", value);
  if (!(value >= 999.995 && value < 1e15)) return fmt::format("{:.2f}", value);
  const auto hundredths = static_cast<int64_t>(std::llround(value * 100));
  return fmt::format("{}.{:02}", format_thousands(hundredths / 100), hundredths % 100);
}

std::string format_ratio(double value) {
  return fmt::format("{:.3f}", value);
}

std::string format_passes(double passes) {
  if (!(passes >= 999.5 && passes < 1e15)) return fmt::format("{:.3g}", passes);
  const double unit = std::pow(10, std::floor(std::log10(passes)) - 2);  // the place value of the third digit
  return format_thousands(static_cast<int64_t>(std::round(passes / unit) * unit));
}

std::string format_amount(int64_t count, const char* singular, const char* plural) {
  const std::string word = plural != nullptr ? plural : std::string(singular) + "s";
  return format_thousands(count) + " " + (count == 1 ? singular : word);
}

std::string format_count(int64_t count) {
  return format_count(static_cast<double>(count));
}

std::string format_bytes(int64_t bytes) {
  return format_bytes(static_cast<double>(bytes));
}

std::string format_list(std::span<const std::string> names, size_t most) {
  const size_t shown = std::min(most, names.size());
  const std::string text = fmt::format("{}", fmt::join(names.first(shown), ", "));
  return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

std::string format_choices(std::span<const std::string> names) {
  if (names.size() < 2) return format_list(names, 1);
  const auto all_but_last = names.first(names.size() - 1);
  return fmt::format("{} or {}", fmt::join(all_but_last, ", "), names.back());
}

}  // namespace gpt
