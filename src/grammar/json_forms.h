#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "grammar/regex_grammar.h"
#include "grammar/rules.h"

namespace gpt::grammar {

// Values of JSON as they are written in answers: without blanks but for one that may follow ',' and ':'.
class JsonForms {
 public:
  explicit JsonForms(Rules& rules) : rules_(rules) {}

  // Behind ',' and ':'.
  Expr comma();
  Expr colon();

  Expr any_value();
  Expr any_object();
  Expr any_string();  // every text, with any escapes
  // One character of a set inside of a string: as it is, or where JSON does not allow that, escaped.
  Expr character(const CodePointSet& set);
  Expr any_character();  // in any spelling
  Expr string_of(Expr characters) {
    return rules_.sequence({rules_.text("\""), characters, rules_.text("\"")});
  }
  CharacterForms characters();  // of patterns
  // A key that is none of these, and has no escapes.
  Expr key_but(const std::set<std::string>& keys);

  // Up to 18 digits; a number has up to 15, a fraction of up to 15, and an exponent of up to two.
  Expr integer();
  Expr number();

 private:
  Expr once(std::optional<RuleId>& rule, const char* name, Expr (JsonForms::*write)());
  Expr write_value();
  Expr write_object();
  Expr write_string();
  Expr write_character();

  Rules& rules_;
  std::optional<RuleId> value_, object_, string_, character_;
};

// The texts of a `format`, as a pattern; nothing for one that is not known. They fit the format's standard,
// though not all that fits is among them.
std::optional<std::string> format_pattern(std::string_view format);

}  // namespace gpt::grammar
