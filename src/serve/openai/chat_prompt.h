#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "serve/models/served_model.h"
#include "serve/openai/answer_grammar.h"
#include "serve/openai/json_request.h"
#include "serve/openai/tool_calls.h"

namespace gpt::serve {

// The conversation of a request, encoded for the model.
struct ChatPrompt {
  std::vector<int32_t> ids;
  int64_t forgotten = 0;   // number of messages removed by "truncation": "auto"
  bool continues = false;  // the response continues the last message, which is the assistant's
  std::optional<ToolCallOptions> tools = {};  // format of tool calls, if the response may contain calls
  // Grammar of a response that consists of tool calls, if the response may contain calls.
  std::optional<AnswerGrammar> calls = {};
  bool must_call = false;
};

// Reads "messages" with "tools", "tool_choice", "parallel_tool_calls", "add_generation_prompt",
// "continue_final_message", "truncation" and "chat_template_kwargs". `body` is the raw request, which
// preserves the order of keys for templates. Throws ApiError if the template rejects the conversation.
ChatPrompt read_chat_prompt(const Fields& fields, std::string_view body, const ServedModel& model);

// Throws ApiError if "parse_special" is true. The messages of a conversation are always read as text.
void refuse_parse_special(const Fields& fields);

}  // namespace gpt::serve
