#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace gpt {

// What becomes of conversations with more ids than a row has room for.
enum class TooLong : uint8_t {
  drop,      // they are left out, and counted
  truncate,  // they lose their oldest turns until they fit; left out where the last one alone does not
  error,
};

struct ChatExampleOptions {
  int64_t n_ctx = 1024;  // of the model: a conversation has at most one id more, which is only predicted
  TooLong too_long = TooLong::drop;
  bool skip_bad = false;  // lines that are no conversation are counted, and no error
};

struct ChatCounts {
  int64_t lines = 0;  // that are not blank
  int64_t bad = 0, dropped = 0, truncated = 0;
  int64_t ids = 0, counted = 0;  // of the examples, and those of weight 1
  std::string first_bad;         // the first message of what was skipped
};

struct ChatExamples {
  std::vector<ChatExample> examples;  // in the order of the lines
  ChatCounts counts;
};

// The conversations of a JSONL text, a line each (chat_conversations.h); blank lines are passed over.
// Throws Error with the name and the line: for what is no conversation, or one that the template does not
// take, unless skip_bad; for one in which nothing counts; for one too long where that is an error.
ChatExamples parse_chat_examples(std::string_view jsonl, const std::string& name, const ChatTemplate& chat,
                                 const ChatExampleOptions& options);

// Throws Error that names `place` where the assistant calls a function in a conversation and the example of
// it lacks the function's name: the template knows no tools.
void require_calls_written(const nlohmann::ordered_json& conversation, const ChatExample& example,
                           const ChatTemplate& chat, const std::string& place);

// An example as text for a terminal: what counts in green where there may be colour, else between "«" and
// "»"; ends with a line of the two numbers.
std::string preview_chat_example(const ChatExample& example, const Tokenizer& tokenizer, bool colour);

}  // namespace gpt
