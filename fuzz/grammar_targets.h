#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/grammar_constraint.h"

// Entry points like those in targets.h, for the grammar parsers.
namespace gpt {

// Checks a property of every grammar: following the token masks with the smallest certain budget produces a
// text that matches the grammar.
inline void check_grammar(const grammar::GrammarPtr& grammar) {
  static const auto vocabulary = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back(std::string(1, static_cast<char>(byte)));
    for (const char* piece : {"{\"", "\":", "\",", "true", "12", "ab", "a\"}", "]]"})
      tokens.emplace_back(piece);
    tokens.emplace_back();  // the end-of-text token
    return std::make_shared<const grammar::Vocabulary>(tokens);
  }();
  const auto masks = std::make_shared<grammar::TokenMasks>(grammar, vocabulary, size_t{1} << 20);
  grammar::GrammarConstraint constraint(masks);
  const auto budget = constraint.certain_budget();
  constexpr int64_t kMostTokens = 300;
  if (!budget || *budget > kMostTokens) return;
  std::vector<uint64_t> words(static_cast<size_t>(vocabulary->size() + 63) / 64);
  std::string text;
  const auto end = static_cast<int32_t>(vocabulary->size() - 1);
  for (int64_t left = *budget; !constraint.may_end(); --left) {
    constraint.allow(left, std::span(&end, 1), words);
    int32_t id = 0;
    while (id < vocabulary->size() && (words[static_cast<size_t>(id) / 64] >> (id % 64) & 1) == 0)
      ++id;
    GPT_ASSERT(left > 0 && id < vocabulary->size());
    constraint.accept(id);
    text += vocabulary->bytes_of(id);
  }
  GPT_ASSERT(grammar->matches(text));
}

template <class Compile>
int fuzz_grammar(Compile&& compile) {
  grammar::Limits limits;  // small, so that a run takes milliseconds
  limits.max_states = 20000;
  limits.max_steps = 300000;
  limits.max_rules = 2000;
  limits.max_expressions = 50000;
  try {
    check_grammar(compile(limits));
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

inline int fuzz_gbnf(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return fuzz_grammar([&](const grammar::Limits& limits) { return grammar::compile_gbnf(text, limits); });
}

inline int fuzz_regex(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return fuzz_grammar([&](const grammar::Limits& limits) { return grammar::compile_regex(text, limits); });
}

inline int fuzz_json_schema(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return fuzz_grammar(
      [&](const grammar::Limits& limits) { return grammar::compile_json_schema_text(text, {}, limits); });
}

}  // namespace gpt
