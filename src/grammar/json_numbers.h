#pragma once

#include <optional>
#include <string>

#include "grammar/rules.h"

namespace gpt::grammar {

// A number in decimal notation: its digits before the point, without leading zeros ("0" for none), and behind
// it, without trailing ones.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;
};

// Reads "-12.5e+3" and the like. Throws Error where it has more than 40 digits, written out.
Decimal parse_decimal(const std::string& text, const std::string& what);
int compare(const Decimal& a, const Decimal& b);  // < 0, 0, > 0

// The numbers between two, which are among them or not.
struct NumberRange {
  std::optional<Decimal> low, high;
  bool with_low = true, with_high = true;

  bool contains(const Decimal& x) const;
};

// The numbers of a range, or its integers alone, with any number of digits. Integers have no fraction and no
// exponent. Other numbers may have an exponent, from -323 to 307, after one digit before the point, as
// Python and JavaScript write it.
Expr numbers_between(Rules& rules, const NumberRange& range, bool integers);

// The integers that n >= 1 divides. Needs n rules.
Expr multiples_of(Rules& rules, int64_t n);

}  // namespace gpt::grammar
