#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "grammar/automaton.h"
#include "grammar/limits.h"

namespace gpt::grammar {

// The set of strings that the model may generate, as a compiled grammar. Immutable and safe to share between
// threads.
class Grammar {
 public:
  explicit Grammar(Automaton automaton);

  const Automaton& automaton() const { return automaton_; }
  // Returns the minimum number of bytes from each state to the end of its rule.
  const std::vector<uint32_t>& byte_ends() const { return byte_ends_; }

  // matches() returns true if the grammar accepts the text. begins() returns true if the text is a prefix of
  // a string that the grammar accepts.
  bool matches(std::string_view text) const;
  bool begins(std::string_view text) const;

 private:
  Automaton automaton_;
  std::vector<uint32_t> byte_ends_;
};
using GrammarPtr = std::shared_ptr<const Grammar>;

// The compile functions throw Error, with the location, if the input is malformed, unsupported or beyond the
// limits. No part of the input is ever ignored. README.md lists the supported syntax.

// Compiles a grammar in llama.cpp's GBNF format. The output must match the rule `root`.
GrammarPtr compile_gbnf(std::string_view text, const Limits& limits = {});
// Compiles an ECMA-262 regular expression. The whole output must match the expression.
GrammarPtr compile_regex(std::string_view pattern, const Limits& limits = {});
// Fixed text before, after and between the JSON values in the output.
struct SchemaFrame {
  std::string before, after;
  std::string between = {};  // separator between several values; if empty, the output has exactly one value
  auto operator<=>(const SchemaFrame&) const = default;
};
// Compiles a JSON schema. In the output, the properties of an object have the same order as in the schema.
GrammarPtr compile_json_schema(const nlohmann::ordered_json& schema, const SchemaFrame& frame = {},
                               const Limits& limits = {});
GrammarPtr compile_json_schema_text(std::string_view text, const SchemaFrame& frame = {},
                                    const Limits& limits = {});
// Compiles a grammar that accepts any JSON object.
GrammarPtr compile_json_object(const Limits& limits = {});

}  // namespace gpt::grammar
