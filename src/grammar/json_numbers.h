#pragma once

#include <optional>
#include <string>

#include "grammar/rules.h"

namespace gpt::grammar {

// A number in decimal notation. `whole` stores the digits before the point without leading zeros; it is "0"
// if there are no digits. `fraction` stores the digits after the point without trailing zeros.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
};

// Parses a JSON number such as "-12.5e+3". Throws Error if the number has more than 40 digits when it is
// written without an exponent. The error message begins with `what`.
Decimal parse_decimal(const std::string& text, const std::string& what);
int compare(const Decimal& a, const Decimal& b);  // returns < 0, 0 or > 0

// An interval of numbers. The interval may be unbounded, and its ends may be inclusive or exclusive.
struct NumberRange {
  std::optional<Decimal> low, high;
  bool with_low = true, with_high = true;

  bool contains(const Decimal& x) const;
};

// Matches the numbers in a range, with any number of digits. Only matches integers if `integers` is true.
// Integers have no fraction and no exponent. Numbers that are not restricted to integers may have an exponent
// from -323 to 307. They then have one digit before the point, as in the notation of Python and JavaScript.
Expr numbers_between(Rules& rules, const NumberRange& range, bool integers);

// Matches the multiples of n. Requires n >= 1 and creates n rules.
Expr multiples_of(Rules& rules, int64_t n);

}  // namespace gpt::grammar
