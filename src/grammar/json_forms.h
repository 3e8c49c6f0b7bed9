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

  Expr integer();
  // With an exponent a number has up to 15 digits before its point. It is never beyond the range of doubles
  // where it has fewer than 300 digits.
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
