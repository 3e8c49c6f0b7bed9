#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "serve/answer_grammar.h"
#include "serve/json_request.h"
#include "serve/served_model.h"
#include "serve/tool_calls.h"

namespace gpt::serve {

// A conversation of a request, as the model reads it.
struct ChatPrompt {
  std::vector<int32_t> ids;
  int64_t forgotten = 0;                      // messages that "truncation": "auto" left out
  bool continues = false;                     // the last message, which is the assistant's
  std::optional<ToolCallOptions> tools = {};  // how calls look in the answer, where it may have some
  std::optional<AnswerGrammar> calls = {};    // of an answer that consists of calls, where it may have some
  bool must_call = false;
};

// Reads "messages" with "tools", "tool_choice", "parallel_tool_calls", "add_generation_prompt",
// "continue_final_message", "truncation" and "chat_template_kwargs". body: the same request as its bytes, for
// the order of names that templates write. Throws ApiError for what the template does not take.
ChatPrompt read_chat_prompt(const Fields& fields, std::string_view body, const ServedModel& model);

// Throws ApiError for "parse_special": true of a conversation, whose messages are always read as text.
void refuse_parse_special(const Fields& fields);

}  // namespace gpt::serve
