#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat/model_text.h"
#include "infer/engine.h"
#include "serve/tool_calls.h"

namespace gpt::serve {

// A token of an answer with its log-probabilities.
struct TokenEntry {
  int32_t id;
  Logprobs logprobs;
  int64_t offset =
      0;  // characters of the text before it; of one that goes on inside a character, that one too
};

// What became ready of a choice.
struct AnswerPiece {
  std::string text;
  std::vector<TokenEntry> tokens;  // where log-probabilities are wanted
  std::vector<ToolCall> calls;

  bool empty() const { return text.empty() && tokens.empty() && calls.empty(); }
};

// One of the answers to a request, as its tokens arrive. Text comes out as whole characters, without the stop
// string that ends it; a token's log-probabilities come out with its last byte.
class AnswerChoice {
 public:
  struct Options {
    std::vector<std::string> stops = {};
    bool drop_blank = false;  // as TextStream
    bool keep_end = false;    // the log-probabilities of a token that ends the answer are part of it
    std::optional<ToolCallOptions> tools = {};
    int64_t first_char = 0;  // characters of the text in front of the answer
  };
  // tokenizer: null where the answer is ids alone; it outlives the object.
  AnswerChoice(const Tokenizer* tokenizer, const Options& options);

  // Takes a token in. After the last one, or a stop string, `finish` says why the answer ended.
  AnswerPiece push(const Event& event);

  // "stop", "length" or "tool_calls"; null while the answer goes on.
  const char* finish() const { return finish_; }
  int64_t tokens() const { return tokens_; }           // that were generated, the ending one included
  double logprob_sum() const { return logprob_sum_; }  // where they are known
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
    int64_t begin, end;  // its characters in the answer, stop strings included
  };
  std::vector<Waiting> waiting_;
  std::vector<int32_t> ids_;
  int64_t tokens_ = 0;
  double logprob_sum_ = 0;
  bool called_ = false;
  const char* finish_ = nullptr;
};

}  // namespace gpt::serve
