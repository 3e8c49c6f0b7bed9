#pragma once

#include <optional>
#include <set>
#include <string>

#include "grammar/character_automaton.h"
#include "grammar/json_forms.h"
#include "grammar/schema.h"

namespace gpt::grammar {

// Matches the JSON strings, including quotes, that satisfy the pattern, format, minLength and maxLength of a
// schema.
Expr string_expression(const SchemaAt& schema, Rules& rules, JsonForms& json);

// Returns an automaton for the strings of a schema, without quotes.
CharacterAutomaton string_automaton(const SchemaAt& schema, const Limits& limits);

// Returns an automaton that accepts all strings except `texts`.
CharacterAutomaton all_but(const std::set<std::string>& texts);

bool accepts(const CharacterAutomaton& automaton, const std::string& text);

}  // namespace gpt::grammar
