#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "grammar/automaton.h"
#include "grammar/limits.h"

namespace gpt::grammar {

// What an answer may be: a set of texts. Immutable: safe to share between threads.
class Grammar {
 public:
  explicit Grammar(Automaton automaton);

  const Automaton& automaton() const { return automaton_; }
  const std::vector<uint32_t>& byte_ends() const {
    return byte_ends_;
  }  // bytes to the end of each state's rule

  // Whether a text fits, and whether it is the beginning of one that does.
  bool matches(std::string_view text) const;
  bool begins(std::string_view text) const;

 private:
  Automaton automaton_;
  std::vector<uint32_t> byte_ends_;
};
using GrammarPtr = std::shared_ptr<const Grammar>;

// All of these throw Error for what is malformed, not supported or beyond the limits, naming the place:
// nothing is ignored. What they accept and refuse is in README.md.

// llama.cpp's GBNF; the rule `root` is the answer.
GrammarPtr compile_gbnf(std::string_view text, const Limits& limits = {});
// A regular expression of ECMA-262; all of the answer fits it.
GrammarPtr compile_regex(std::string_view pattern, const Limits& limits = {});
// Text around each value of a JSON schema.
struct SchemaFrame {
  std::string before, after;
  std::string between = {};  // several of them; none: there is one
  auto operator<=>(const SchemaFrame&) const = default;
};
// A JSON schema, as text or with the order of its keys: objects have their properties in this order.
GrammarPtr compile_json_schema(const nlohmann::ordered_json& schema, const SchemaFrame& frame = {},
                               const Limits& limits = {});
GrammarPtr compile_json_schema_text(std::string_view text, const SchemaFrame& frame = {},
                                    const Limits& limits = {});
// Any JSON object.
GrammarPtr compile_json_object(const Limits& limits = {});

}  // namespace gpt::grammar
