#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "grammar/grammar_cache.h"
#include "serve/json_request.h"
#include "serve/served_model.h"
#include "serve/tool_calls.h"

namespace gpt::serve {

// What the answer to a request has to be, and the field that says so.
struct AnswerGrammar {
  grammar::GrammarSource source;
  std::string field;
};

// Reads "response_format" and what vLLM and llama.cpp have in its place; nothing where the answer may be any
// text. body: the same request as its bytes, for the order of keys. Throws ApiError for what is malformed,
// and for more than one of them.
std::optional<AnswerGrammar> read_answer_grammar(const Fields& fields, std::string_view body);

// Calls of some of these tools, each {"type", "function": {"name", "parameters"}}. several: more than one
// call may follow, where the format has that.
AnswerGrammar tool_call_grammar(const nlohmann::ordered_json& tools, ToolFormat format, bool several);

// Holds requests to a grammar; their max_tokens are known. May take a quarter of a second. Throws ApiError
// (400) for a grammar that cannot be compiled, and where no answer has so few tokens.
void constrain(std::span<Request> requests, const AnswerGrammar& grammar, const ServedModel& model);

}  // namespace gpt::serve
