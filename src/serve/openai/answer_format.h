#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serve/openai/answer_choice.h"
#include "serve/openai/responses.h"

namespace gpt::serve {

struct Usage {
  int64_t prompt = 0, completion = 0, cached = 0;  // number of tokens
};

// Writes responses in the format of OpenAI's API, either whole or as the events of a stream. Events are
// assembled from text, because one is sent per token.
class AnswerFormat {
 public:
  struct Options {
    bool chat = true;  // true: chat completions; false: completions
    std::string id, model;
    int64_t created = 0;  // Unix time in seconds
    bool logprobs = false, include_usage = false;
    const Tokenizer* tokenizer = nullptr;  // null: responses consist of token ids
  };
  explicit AnswerFormat(const Options& options);

  // The state of a choice between two chunks.
  struct Progress {
    size_t index = 0;  // index among all choices
    int64_t calls = 0;
  };
  // Each of these functions appends one event, "data: ...\n\n". `finish` is null until the choice has ended.
  void role_chunk(std::string& out, size_t index) const;  // only for chat completions
  void chunk(std::string& out, Progress& progress, const AnswerPiece& piece, const char* finish) const;
  void usage_chunk(std::string& out, const Usage& usage) const;
  static constexpr const char* kDone = "data: [DONE]\n\n";

  // Returns a complete response as JSON.
  struct WholeChoice {
    AnswerPiece all;
    const char* finish;
  };
  std::string whole(const std::vector<WholeChoice>& choices, const Usage& usage) const;

 private:
  void open(std::string& out) const;
  void close(std::string& out, const char* finish) const;
  template <class Choice>
  std::string whole_response(const std::vector<WholeChoice>& choices, const Usage& usage) const;
  std::string logprobs(const std::vector<TokenEntry>& tokens) const;
  std::optional<ChatLogprobs> chat_logprobs(const std::vector<TokenEntry>& tokens) const;
  std::optional<CompletionLogprobs> text_logprobs(const std::vector<TokenEntry>& tokens) const;
  TokenLogprobResponse token(const TokenLogprob& token) const;
  std::string token_text(int32_t id) const;
  NamedNumbers text_top(const Logprobs& logprobs) const;

  Options options_;
  std::string prefix_;  // JSON members at the start of every chunk
};

// Returns a unique id for a response: `prefix` followed by random hex digits, such as "chatcmpl-...".
std::string new_id(const std::string& prefix);

inline constexpr const char* kFingerprint = "gptcpp";

}  // namespace gpt::serve
