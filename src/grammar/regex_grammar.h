#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "grammar/rules.h"

namespace gpt::grammar {

// Callbacks that create expressions for the characters of a pattern. `one_of` matches one character of a set,
// and `any` matches any character.
struct CharacterForms {
  std::function<Expr(const CodePointSet&)> one_of;
  std::function<Expr()> any;
};

// Selects whether a pattern must match the whole text or, like `pattern` in JSON Schema, any part of the
// text.
enum class PatternRange : uint8_t { whole, part };

// Converts a regular expression (ECMA-262 with the flag u) to an expression. Supports characters, escapes,
// classes, groups, alternatives, quantifiers, and anchors at the ends of the top-level alternatives. Lazy and
// greedy quantifiers are equivalent, because both match the same strings. Throws Error for lookaround,
// backreferences, word boundaries, Unicode properties, other anchors and malformed patterns. The error
// message begins with `what`.
Expr regex_expression(Rules& rules, std::string_view pattern, const CharacterForms& forms, PatternRange range,
                      const std::string& what);

}  // namespace gpt::grammar
