#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "grammar/rules.h"

namespace gpt::grammar {

// How the characters of a pattern are written: `one_of` a set, and `any` of all there are.
struct CharacterForms {
  std::function<Expr(const CodePointSet&)> one_of;
  std::function<Expr()> any;
};

// Whether all of a text must fit the pattern, or a part of it, as JSON Schema's `pattern` says.
enum class PatternRange : uint8_t { whole, part };

// The texts of a regular expression (ECMA-262, read as with its flag u): characters, escapes, classes,
// groups, alternatives, quantifiers, anchors at the ends of the whole pattern's alternatives. Lazy and greedy
// quantifiers have the same texts. Throws Error that begins with `what` for lookaround, backreferences, word
// boundaries, Unicode properties and anchors elsewhere, by name, and for what is malformed.
Expr regex_expression(Rules& rules, std::string_view pattern, const CharacterForms& forms, PatternRange range,
                      const std::string& what);

}  // namespace gpt::grammar
