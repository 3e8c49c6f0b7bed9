#include "grammar/json_numbers.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"

namespace gpt::grammar {
namespace {

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  const int whole = a.whole.compare(b.whole);
  return whole != 0 ? whole : a.fraction.compare(b.fraction);
}

bool is_zero(const Decimal& x) {
  return x.whole == "0" && x.fraction.empty();
}

// Matches the absolute values in a range with a lower limit. `at_low` is true if all digits so far equal the
// digits of the lower limit. The next digit must then not be smaller than the next digit of the limit.
// `at_high` is the same for the upper limit.
class Magnitudes {
 public:
  Magnitudes(Rules& rules, const NumberRange& range, bool integers)
      : rules_(rules), range_(range), integers_(integers), low_(*range.low) {
    if (range_.high) high_ = *range_.high;
  }

  Expr write() {
    std::vector<Expr> options;
    const size_t most = range_.high ? high_.whole.size() : low_.whole.size();
    for (size_t length = low_.whole.size(); length <= most; ++length) {
      length_ = length;
      options.push_back(whole(0, length == low_.whole.size(), range_.high && length == most));
    }
    if (!range_.high) {  // numbers with more digits are larger than the lower limit
      const auto shortest = static_cast<int64_t>(low_.whole.size());
      options.push_back(
          rules_.sequence({digit('1', '9'), rules_.repeat(digit('0', '9'), shortest, -1, "digits"),
                           after_whole(false, false)}));
    }
    return rules_.choice(options);
  }

 private:
  Expr digit(char first, char last) {
    return rules_.byte_range(static_cast<uint8_t>(first), static_cast<uint8_t>(last));
  }
  Expr digits(char last, int64_t min) { return rules_.repeat(digit('0', last), min, -1, "digits"); }

  // Matches a digit from `low` to `high` and the rest of the number. next(at_low, at_high) returns the
  // expression for the rest of the number after this digit.
  template <class Next>
  Expr one_digit(char low, char high, bool at_low, bool at_high, Next&& next) {
    if (low > high) return rules_.never();
    if (low == high) return rules_.sequence({digit(low, low), next(at_low, at_high)});
    std::vector<Expr> options;
    if (at_low) options.push_back(rules_.sequence({digit(low, low), next(true, false)}));
    if (at_high) options.push_back(rules_.sequence({digit(high, high), next(false, true)}));
    const char first = static_cast<char>(low + (at_low ? 1 : 0)),
               last = static_cast<char>(high - (at_high ? 1 : 0));
    if (first <= last) options.push_back(rules_.sequence({digit(first, last), next(false, false)}));
    return rules_.choice(options);
  }

  // Matches the digits before the point, from digit number `at` on, and the rest of the number.
  Expr whole(size_t at, bool at_low, bool at_high) {
    if (at == length_) return after_whole(at_low, at_high);
    if (!at_low && !at_high && at > 0) {
      const auto left = static_cast<int64_t>(length_ - at);
      return rules_.sequence(
          {rules_.repeat(digit('0', '9'), left, left, "digits"), after_whole(false, false)});
    }
    const char least = at == 0 && length_ > 1 ? '1' : '0';
    return one_digit(at_low ? low_.whole[at] : least, at_high ? high_.whole[at] : '9', at_low, at_high,
                     [&](bool low, bool high) { return whole(at + 1, low, high); });
  }

  // Returns true if the number may end after `digits` digits after the point.
  bool may_end(size_t digits, bool at_low, bool at_high) const {
    if (at_low && (low_.fraction.size() > digits || !range_.with_low)) return false;
    return !at_high || high_.fraction.size() > digits || range_.with_high;
  }

  Expr after_whole(bool at_low, bool at_high) {
    std::vector<Expr> options;
    if (may_end(0, at_low, at_high)) options.push_back(rules_.nothing());
    if (!integers_) options.push_back(rules_.sequence({rules_.text("."), fraction(0, at_low, at_high)}));
    return rules_.choice(options);
  }

  // Matches at least one more digit after the point.
  Expr fraction(size_t at, bool at_low, bool at_high) {
    const bool low_goes_on = at_low && at < low_.fraction.size();
    const bool high_goes_on = at_high && at < high_.fraction.size();
    if (!low_goes_on && !high_goes_on) return last_digits(at_low, at_high);
    const auto digit_of = [&](const std::string& digits) { return at < digits.size() ? digits[at] : '0'; };
    return one_digit(at_low ? digit_of(low_.fraction) : '0', at_high ? digit_of(high_.fraction) : '9', at_low,
                     at_high, [&](bool low, bool high) {
                       const Expr more = fraction(at + 1, low, high);
                       return may_end(at + 1, low, high) ? rules_.optional(more) : more;
                     });
  }

  // Matches one or more digits at positions after the last digit of each limit.
  Expr last_digits(bool at_low, bool at_high) {
    const bool with_equal = (!at_low || range_.with_low) && (!at_high || range_.with_high);
    if (at_high) return with_equal ? digits('0', 1) : rules_.never();
    if (with_equal) return digits('9', 1);
    return rules_.sequence({digits('0', 0), digit('1', '9'), digits('9', 0)});
  }

  Rules& rules_;
  const NumberRange& range_;
  bool integers_;
  Decimal low_, high_;
  size_t length_ = 0;
};

// With an exponent in this range, a number of any mantissa fits into a double.
constexpr int kLeastExponent = -323, kMostExponent = 307;

// A number above 0, written as d.ddd * 10^exponent.
struct Scientific {
  Decimal mantissa;
  int exponent;
};
Scientific scientific(const Decimal& x) {
  const size_t zeros = x.fraction.find_first_not_of('0');
  const std::string digits = x.whole == "0" ? x.fraction.substr(zeros) : x.whole + x.fraction;
  Scientific out{
      .mantissa = {.whole = digits.substr(0, 1), .fraction = digits.substr(1)},
      .exponent = x.whole == "0" ? -static_cast<int>(zeros) - 1 : static_cast<int>(x.whole.size()) - 1};
  out.mantissa.fraction.erase(out.mantissa.fraction.find_last_not_of('0') + 1);
  return out;
}

Decimal decimal_of(int x) {
  return {.negative = x < 0, .whole = std::to_string(std::abs(x))};
}

// Matches exponents from first to last, such as "e-07", "E5" and "e+22".
Expr exponents(Rules& rules, int first, int last) {
  std::vector<Expr> options;
  const auto add = [&](const char* sign, int low, int high) {
    if (low > high) return;
    const NumberRange range{decimal_of(low), decimal_of(high)};
    options.push_back(rules.sequence(
        {rules.text(sign), rules.optional(rules.text("0")), Magnitudes(rules, range, true).write()}));
  };
  add("-", std::max(-last, 0), -first);
  add("+", std::max(first, 0), last);
  add("", std::max(first, 0), last);
  return rules.sequence({rules.choice({rules.text("e"), rules.text("E")}), rules.choice(options)});
}

// Matches the positive numbers in a range, written with an exponent.
Expr with_exponent(Rules& rules, const NumberRange& range) {
  const Decimal one{.whole = "1"}, ten{.whole = "10"};
  const Scientific low = is_zero(*range.low) ? Scientific{one, kLeastExponent} : scientific(*range.low);
  if (range.high && is_zero(*range.high)) return rules.never();
  const Scientific high = range.high ? scientific(*range.high) : Scientific{ten, kMostExponent};
  const bool any_low = is_zero(*range.low), any_high = !range.high;
  std::vector<Expr> options;
  const auto add = [&](int first, int last, bool at_low, bool at_high) {
    if (first > last) return;
    const NumberRange mantissas{
        at_low && !any_low ? low.mantissa : one, at_high && !any_high ? high.mantissa : ten,
        !at_low || any_low || range.with_low, at_high && !any_high && range.with_high};
    options.push_back(
        rules.sequence({Magnitudes(rules, mantissas, false).write(), exponents(rules, first, last)}));
  };
  if (low.exponent == high.exponent) {
    add(low.exponent, low.exponent, true, true);
  } else {
    add(low.exponent, std::min(low.exponent, high.exponent - 1), true, false);
    add(low.exponent + 1, high.exponent - 1, false, false);
    add(std::max(high.exponent, low.exponent + 1), high.exponent, false, true);
  }
  return rules.choice(options);
}

Expr magnitudes(Rules& rules, const NumberRange& range, bool integers) {
  const Expr plain = Magnitudes(rules, range, integers).write();
  return integers ? plain : rules.choice({plain, with_exponent(rules, range)});
}

}  // namespace

Decimal parse_decimal(const std::string& text, const std::string& what) {
  constexpr int64_t kMostDigits = 40;
  Decimal x;
  size_t at = 0;
  x.negative = text[at] == '-';
  if (x.negative) ++at;
  std::string digits;
  int64_t point = -1, exponent = 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.')
      point = std::ssize(digits);
    else
      digits += text[at];
  }
  if (point < 0) point = std::ssize(digits);
  if (at < text.size()) {
    at += text[at + 1] == '+' ? 2 : 1;
    std::from_chars(text.data() + at, text.data() + text.size(), exponent);
  }
  point += exponent;
  if (point < -kMostDigits || point > kMostDigits || std::ssize(digits) > kMostDigits)
    fail("{}: expected a number with at most {} digits, found {}", what, kMostDigits, text);
  if (point < 0) digits.insert(0, static_cast<size_t>(-point), '0'), point = 0;
  if (point > std::ssize(digits)) digits.append(static_cast<size_t>(point) - digits.size(), '0');
  x.whole = digits.substr(0, static_cast<size_t>(point));
  x.fraction = digits.substr(static_cast<size_t>(point));
  x.whole.erase(0, std::min(x.whole.find_first_not_of('0'), x.whole.size()));
  if (x.whole.empty()) x.whole = "0";
  x.fraction.erase(x.fraction.find_last_not_of('0') + 1);
  if (is_zero(x)) x.negative = false;
  return x;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

bool NumberRange::contains(const Decimal& x) const {
  if (low && compare(x, *low) < (with_low ? 0 : 1)) return false;
  return !high || compare(x, *high) <= (with_high ? 0 : -1);
}

Expr numbers_between(Rules& rules, const NumberRange& range, bool integers) {
  const auto magnitude = [](Decimal x) {
    x.negative = false;
    return x;
  };
  const bool with_zero = range.contains(Decimal{});
  std::vector<Expr> options;
  if (!range.high || !range.high->negative) {
    NumberRange part = range;
    if (!range.low || range.low->negative) {
      part.low = Decimal{};
      part.with_low = with_zero;
    }
    options.push_back(magnitudes(rules, part, integers));
  }
  if (!range.low || range.low->negative) {
    NumberRange part{.with_low = range.with_high, .with_high = range.with_low};
    if (range.high && range.high->negative) {
      part.low = magnitude(*range.high);
    } else {
      part.low = Decimal{};
      part.with_low = with_zero;
    }
    if (range.low) part.high = magnitude(*range.low);
    options.push_back(rules.sequence({rules.text("-"), magnitudes(rules, part, integers)}));
  }
  return rules.choice(options);
}

Expr multiples_of(Rules& rules, int64_t n) {
  // rests[r] matches the rest of a number if the digits so far leave the remainder r.
  std::vector<RuleId> rests;
  for (int64_t r = 0; r < n; ++r)
    rests.push_back(rules.declare("multiple"));
  const auto digits_from = [&](char first, int64_t remainder) {
    std::vector<Expr> options;
    for (char digit = first; digit <= '9'; ++digit) {
      const auto next = static_cast<size_t>((remainder * 10 + (digit - '0')) % n);
      const auto byte = static_cast<uint8_t>(digit);
      options.push_back(rules.sequence({rules.byte_range(byte, byte), rules.call(rests[next])}));
    }
    return options;
  };
  for (int64_t r = 0; r < n; ++r) {
    std::vector<Expr> options = digits_from('0', r);
    if (r == 0) options.push_back(rules.nothing());
    rules.define(rests[static_cast<size_t>(r)], rules.choice(options));
  }
  const Expr positive = rules.choice(digits_from('1', 0));
  return rules.choice({rules.text("0"), rules.sequence({rules.optional(rules.text("-")), positive})});
}

}  // namespace gpt::grammar
