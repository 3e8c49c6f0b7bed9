#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "grammar/grammar_cache.h"
#include "serve/models/served_model.h"
#include "serve/openai/json_request.h"
#include "serve/openai/tool_calls.h"

namespace gpt::serve {

// A grammar that constrains the response, and the request field that specifies it.
struct AnswerGrammar {
  grammar::GrammarSource source;
  std::string field;
};

// Reads "response_format" and the equivalent fields of vLLM and llama.cpp. Returns nullopt if the response
// may be any text. `body` is the raw request, which preserves the order of keys. Throws ApiError if a field
// is malformed or more than one of the fields is set.
std::optional<AnswerGrammar> read_answer_grammar(const Fields& fields, std::string_view body);

// Returns a grammar for calls of the given tools, each {"type", "function": {"name", "parameters"}}. If
// `several` is true and the format allows several calls, the response may contain more than one call.
AnswerGrammar tool_call_grammar(const nlohmann::ordered_json& tools, ToolFormat format, bool several);

// Constrains requests by a grammar. The max_tokens of each request must be set. May take a quarter of a
// second. Throws ApiError (400) if the grammar cannot be compiled or if no valid response fits into
// max_tokens.
void constrain(std::span<Request> requests, const AnswerGrammar& grammar, const ServedModel& model);

}  // namespace gpt::serve
