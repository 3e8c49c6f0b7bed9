#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "grammar/regex_grammar.h"
#include "grammar/rules.h"

namespace gpt::grammar {

// Creates expressions for the JSON values in the output. The output has no white space except an optional
// space after ',' and ':'.
class JsonForms {
 public:
  explicit JsonForms(Rules& rules) : rules_(rules) {}

  // comma() and colon() match the character and an optional space.
  Expr comma();
  Expr colon();

  Expr any_value();
  Expr any_object();
  Expr any_string();  // any string, with any escapes
  // Matches one character of a set inside a JSON string. Characters that JSON only allows in escaped form are
  // escaped.
  Expr character(const CodePointSet& set);
  Expr any_character();  // any character, unescaped or with any escape
  Expr string_of(Expr characters) {
    return rules_.sequence({rules_.text("\""), characters, rules_.text("\"")});
  }
  CharacterForms characters();  // the forms of the characters in a pattern
  // Matches any key without escapes that is not in `keys`.
  Expr key_but(const std::set<std::string>& keys);

  Expr integer();
  // Matches any number. A number with an exponent has at most 15 digits before the point. A number with fewer
  // than 300 digits is always within the range of a double.
  Expr number();

 private:
  Expr once(std::optional<RuleId>& rule, const char* name, Expr (JsonForms::*write)());
  Expr write_value();
  Expr write_object();
  Expr write_string();
  Expr write_character();
  Expr write_number();

  Rules& rules_;
  std::optional<RuleId> value_, object_, string_, character_, number_;
};

}  // namespace gpt::grammar
