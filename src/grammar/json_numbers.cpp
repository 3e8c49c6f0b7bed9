#include "grammar/json_numbers.h"

#include <algorithm>
#include <charconv>
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

// Numbers of one sign. While the digits so far are those of a limit, the next one must keep to it: `at_low`
// and `at_high` say so.
class Magnitudes {
 public:
  Magnitudes(Rules& rules, const NumberRange& range, int max_digits, bool integers)
      : rules_(rules), range_(range), max_digits_(static_cast<size_t>(max_digits)), integers_(integers) {}

  Expr write() {
    const Decimal low = range_.low.value_or(Decimal{});
    low_ = low;
    if (range_.high) high_ = *range_.high;
    std::vector<Expr> options;
    for (size_t length = low_.whole.size(); length <= max_digits_; ++length) {
      if (range_.high && length > high_.whole.size()) break;
      length_ = length;
      options.push_back(whole(0, length == low_.whole.size(), range_.high && length == high_.whole.size()));
    }
    return rules_.choice(options);
  }

 private:
  Expr digit(char first, char last) {
    return rules_.byte_range(static_cast<uint8_t>(first), static_cast<uint8_t>(last));
  }

  // One digit between `low` and `high`, and what `next` says for when it is a limit's.
  template <class Next>
  Expr digits(char low, char high, bool at_low, bool at_high, Next&& next) {
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

  // The digits before the point, from number `at` on, and what follows.
  Expr whole(size_t at, bool at_low, bool at_high) {
    if (at == length_) return behind_whole(at_low, at_high);
    if (!at_low && !at_high && at > 0) {
      const auto left = static_cast<int64_t>(length_ - at);
      return rules_.sequence(
          {rules_.repeat(digit('0', '9'), left, left, "digits"), behind_whole(false, false)});
    }
    const char least = at == 0 && length_ > 1 ? '1' : '0';
    return digits(at_low ? low_.whole[at] : least, at_high ? high_.whole[at] : '9', at_low, at_high,
                  [&](bool low, bool high) { return whole(at + 1, low, high); });
  }

  size_t places() const { return integers_ ? 0 : max_digits_ - length_; }

  // Whether a number may end behind so many digits of its fraction.
  bool may_end(size_t digits, bool at_low, bool at_high) const {
    if (at_low && (low_.fraction.size() > digits || !range_.with_low)) return false;
    return !at_high || high_.fraction.size() > digits || range_.with_high;
  }

  Expr behind_whole(bool at_low, bool at_high) {
    std::vector<Expr> options;
    if (may_end(0, at_low, at_high)) options.push_back(rules_.nothing());
    if (places() > 0) options.push_back(rules_.sequence({rules_.text("."), fraction(0, at_low, at_high)}));
    return rules_.choice(options);
  }

  Expr fraction(size_t at, bool at_low, bool at_high) {
    if (!at_low && !at_high)
      return rules_.repeat(digit('0', '9'), 1, static_cast<int64_t>(places() - at), "digits");
    const auto digit_of = [&](const std::string& digits) { return at < digits.size() ? digits[at] : '0'; };
    return digits(at_low ? digit_of(low_.fraction) : '0', at_high ? digit_of(high_.fraction) : '9', at_low,
                  at_high, [&](bool low, bool high) {
                    std::vector<Expr> options;
                    if (may_end(at + 1, low, high)) options.push_back(rules_.nothing());
                    if (at + 1 < places()) options.push_back(fraction(at + 1, low, high));
                    return rules_.choice(options);
                  });
  }

  Rules& rules_;
  const NumberRange& range_;
  size_t max_digits_;
  bool integers_;
  Decimal low_, high_;
  size_t length_ = 0;
};

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
    fail("{}: expected a number of at most {} digits, found {}", what, kMostDigits, text);
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

Expr numbers_between(Rules& rules, const NumberRange& range, int max_digits, bool integers) {
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
    options.push_back(Magnitudes(rules, part, max_digits, integers).write());
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
    options.push_back(
        rules.sequence({rules.text("-"), Magnitudes(rules, part, max_digits, integers).write()}));
  }
  return rules.choice(options);
}

Expr multiples_of(Rules& rules, int64_t n, int max_digits) {
  // rest[r]: what may follow digits that leave the remainder r, when so many more may come.
  std::vector<Expr> rest(static_cast<size_t>(n), rules.never());
  rest[0] = rules.nothing();
  const auto digits_from = [&](char first, int64_t remainder) {
    std::vector<Expr> options;
    for (char digit = first; digit <= '9'; ++digit) {
      const auto next = static_cast<size_t>((remainder * 10 + (digit - '0')) % n);
      const auto byte = static_cast<uint8_t>(digit);
      options.push_back(rules.sequence({rules.byte_range(byte, byte), rest[next]}));
    }
    return options;
  };
  for (int digit = 1; digit < max_digits; ++digit) {
    std::vector<Expr> longer;
    for (int64_t r = 0; r < n; ++r) {
      std::vector<Expr> options = digits_from('0', r);
      if (r == 0) options.push_back(rules.nothing());
      const RuleId rule = rules.declare("multiple");
      rules.define(rule, rules.choice(options));
      longer.push_back(rules.call(rule));
    }
    rest = std::move(longer);
  }
  const Expr positive = rules.choice(digits_from('1', 0));
  return rules.choice({rules.text("0"), rules.sequence({rules.optional(rules.text("-")), positive})});
}

}  // namespace gpt::grammar
