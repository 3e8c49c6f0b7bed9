#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat/model_text.h"
#include "infer/engine.h"
#include "serve/openai/tool_calls.h"

namespace gpt::serve {

// A response token and its log-probabilities.
struct TokenEntry {
  int32_t id;
  Logprobs logprobs;
  // Number of characters before the token, including a character that the token continues.
  int64_t offset = 0;
};

// The part of a choice that is ready to be sent.
struct AnswerPiece {
  std::string text;
  std::vector<TokenEntry> tokens;  // only if log-probabilities were requested
  std::vector<ToolCall> calls;

  bool empty() const { return text.empty() && tokens.empty() && calls.empty(); }
};

// Converts the tokens of one response to text as they arrive. Returns whole characters, without the stop
// string that ends the response. The log-probabilities of a token are returned together with its last byte.
class AnswerChoice {
 public:
  struct Options {
    std::vector<std::string> stops = {};
    bool drop_blank = false;  // see TextStream
    bool keep_end = false;    // include the log-probabilities of the token that ends the response
    std::optional<ToolCallOptions> tools = {};
    int64_t first_char = 0;  // number of characters before the response
  };
  // `tokenizer` may be null if the response consists of token ids only. The tokenizer must outlive the
  // object.
  AnswerChoice(const Tokenizer* tokenizer, const Options& options);

  // Adds a token. After the last token or a stop string, `finish` returns the finish reason.
  AnswerPiece push(const Event& event);

  // Returns "stop", "length" or "tool_calls", or null until the response has ended.
  const char* finish() const { return finish_; }
  int64_t tokens() const {
    return tokens_;
  }  // number of generated tokens, including the one that ended the response
  double logprob_sum() const { return logprob_sum_; }  // sum over all tokens whose log-probability is known
  const std::vector<int32_t>& ids() const { return ids_; }

 private:
  int64_t begun_chars() const;
  void release(AnswerPiece& piece, bool all);
  std::string without_calls(std::string text, AnswerPiece& piece);
  void end(AnswerPiece& piece, const char* reason);

  bool keep_end_;
  int64_t first_char_;
  std::optional<TextStream> stream_;
  std::optional<ToolCallParser> tools_;
  struct Waiting {
    TokenEntry entry;
    int64_t begin, end;  // range of the token's characters in the response, stop strings included
  };
  std::vector<Waiting> waiting_;
  std::vector<int32_t> ids_;
  int64_t tokens_ = 0;
  double logprob_sum_ = 0;
  bool called_ = false;
  const char* finish_ = nullptr;
};

}  // namespace gpt::serve
