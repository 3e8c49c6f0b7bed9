#pragma once

#include <optional>
#include <set>
#include <string>

#include "grammar/character_automaton.h"
#include "grammar/json_forms.h"
#include "grammar/schema.h"

namespace gpt::grammar {

// The strings that a schema's pattern, format, minLength and maxLength allow together, with their quotes.
Expr string_expression(const SchemaAt& schema, Rules& rules, JsonForms& json);

// The same strings without quotes, as an automaton.
CharacterAutomaton string_automaton(const SchemaAt& schema, const Limits& limits);

// All texts but these.
CharacterAutomaton all_but(const std::set<std::string>& texts);

bool accepts(const CharacterAutomaton& automaton, const std::string& text);

}  // namespace gpt::grammar
