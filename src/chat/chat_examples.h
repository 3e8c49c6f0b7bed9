#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template.h"

namespace gpt {

// Selects how to treat a conversation that is longer than a training row.
enum class TooLong : uint8_t {
  drop,      // leaves the conversation out and counts it
  truncate,  // removes the oldest turns until the conversation fits; drops it if the last turn alone does not
             // fit
  error,
};

struct ChatExampleOptions {
  int64_t n_ctx = 1024;  // context of the model; a conversation may have one id more, which is only predicted
  TooLong too_long = TooLong::drop;
  bool skip_bad = false;  // true: invalid lines are counted instead of reported as errors
};

struct ChatCounts {
  int64_t lines = 0;  // number of lines that are not blank
  int64_t bad = 0, dropped = 0, truncated = 0;
  int64_t ids = 0, counted = 0;  // number of ids in the examples, and number of ids with weight 1
  std::string first_bad;         // error message of the first skipped line
};

struct ChatExamples {
  std::vector<ChatExample> examples;  // in the order of the lines
  ChatCounts counts;
};

// Parses a JSONL text with one conversation per line (see chat_conversations.h). Blank lines are skipped.
// Throws Error with the file and the line of a bad conversation, unless skip_bad is true. A conversation is
// bad if it is invalid, if the template rejects it, or if it has no token to train on. Also throws Error if a
// conversation is too long and too_long is TooLong::error.
ChatExamples parse_chat_examples(std::string_view jsonl, const std::string& name, const ChatTemplate& chat,
                                 const ChatExampleOptions& options);

// Throws Error if the template does not support tool calls, but the assistant calls a function in the
// conversation. The template does not support tool calls if the encoded example does not contain the name of
// the function. The error message contains `place`.
void require_calls_written(const nlohmann::ordered_json& conversation, const ChatExample& example,
                           const ChatTemplate& chat, const std::string& place);

// Returns an example as text for a terminal. Text that is trained on is green if `colour` is true, and
// otherwise enclosed in "«" and "»". The last line states how many of the tokens are trained on.
std::string preview_chat_example(const ChatExample& example, const Tokenizer& tokenizer, bool colour);

}  // namespace gpt
