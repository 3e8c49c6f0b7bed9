#include "tasks/ujson.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/ascii.h"

namespace gpt {
namespace {

using Value = nlohmann::ordered_json;

constexpr int kWrittenDecimals = 10, kReadDecimals = 15;
constexpr double kNegativePowers[] = {1e-0, 1e-1, 1e-2,  1e-3,  1e-4,  1e-5,  1e-6,  1e-7,
                                      1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15};

class NumberReader {
 public:
  explicit NumberReader(std::string_view text) : text_(text) {}

  std::optional<Value> read() {
    negative_ = take('-');
    uint64_t whole = 0;
    while (sees_digit()) {
      const uint64_t before = whole;
      whole = whole * 10 + digit();  // wraps around on overflow
      if (negative_ ? whole > uint64_t{1} << 63 : before > whole) return std::nullopt;
    }
    const bool has_fraction = take('.');
    double fraction = 0;
    int decimals = 0;
    while (has_fraction && sees_digit()) {
      const auto next = static_cast<double>(digit());
      if (decimals == kReadDecimals) continue;
      fraction = fraction * 10 + next;
      ++decimals;
    }
    const bool has_exponent = take('e') || take('E');
    const double exponent = has_exponent ? read_exponent() : 0;
    if (at_ < text_.size()) return std::nullopt;
    if (!has_fraction && !has_exponent) return integer(whole);
    const double value = static_cast<double>(whole) + fraction * kNegativePowers[decimals];
    return Value((negative_ ? -value : value) * std::pow(10.0, exponent));
  }

 private:
  double read_exponent() {
    const bool negative = take('-');
    if (!negative) take('+');
    double exponent = 0;
    while (sees_digit())
      exponent = exponent * 10 + static_cast<double>(digit());
    return negative ? -exponent : exponent;
  }

  Value integer(uint64_t whole) const {
    if (!negative_) return whole;
    return whole == uint64_t{1} << 63 ? std::numeric_limits<int64_t>::min() : -static_cast<int64_t>(whole);
  }

  bool sees_digit() const { return at_ < text_.size() && is_ascii_digit(text_[at_]); }
  uint64_t digit() { return static_cast<uint64_t>(text_[at_++] - '0'); }
  bool take(char c) {
    const bool found = at_ < text_.size() && text_[at_] == c;
    at_ += found ? 1 : 0;
    return found;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool negative_ = false;
};

}  // namespace

std::string ujson_text(double value) {
  const double size = std::fabs(value);
  if (size > 1e16 || (size != 0 && size < 1e-15)) return fmt::format("{:.10g}", value);
  constexpr uint64_t kScale = 10'000'000'000;
  auto whole = static_cast<uint64_t>(size);
  const double scaled = (size - static_cast<double>(whole)) * static_cast<double>(kScale);
  auto fraction = static_cast<uint64_t>(scaled);
  const double rest = scaled - static_cast<double>(fraction);
  if (rest > 0.5 || (rest == 0.5 && (fraction == 0 || fraction % 2 == 1))) ++fraction;
  if (fraction >= kScale) fraction = 0, ++whole;
  std::string decimals = fmt::format("{:0{}}", fraction, kWrittenDecimals);
  decimals.erase(std::max(decimals.find_last_not_of('0') + 1, size_t{1}));
  return fmt::format("{}{}.{}", value < 0 ? "-" : "", whole, decimals);
}

std::optional<Value> ujson_scalar(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return std::nullopt;
  text = text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "null" || text == "NaN") return Value();
  if (text == "true" || text == "false") return Value(text == "true");
  if (text == "Infinity") return Value(kInfinity);
  if (text == "-Infinity") return Value(-kInfinity);
  if (text[0] != '-' && !is_ascii_digit(text[0])) return std::nullopt;
  return NumberReader(text).read();
}

}  // namespace gpt
