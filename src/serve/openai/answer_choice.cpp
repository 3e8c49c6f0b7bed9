#include "serve/openai/answer_choice.h"

#include <algorithm>

namespace gpt::serve {

AnswerChoice::AnswerChoice(const Tokenizer* tokenizer, const Options& options)
    : keep_end_(options.keep_end), first_char_(options.first_char) {
  if (tokenizer != nullptr) stream_.emplace(*tokenizer, options.stops, options.drop_blank);
  if (options.tools) tools_.emplace(*options.tools);
}

AnswerPiece AnswerChoice::push(const Event& event) {
  AnswerPiece piece;
  ++tokens_;
  if (event.logprobs != nullptr) logprob_sum_ += event.logprobs->chosen.logprob;
  const bool ends = event.finish == FinishReason::eos || event.finish == FinishReason::stop;
  std::string text;
  const int64_t begin = stream_ ? stream_->read_chars() : 0, begun = begun_chars();
  if (!ends) {
    ids_.push_back(event.id);
    if (stream_) text = stream_->push(event.id);
  }
  if (event.logprobs != nullptr && (!ends || keep_end_))
    waiting_.push_back({{event.id, *event.logprobs, first_char_ + begun}, begin, begun_chars()});
  bool stopped = stream_ && stream_->stopped();
  if (event.finish && !stopped && stream_) text += stream_->finish();
  piece.text = without_calls(std::move(text), piece);
  stopped = stopped || (tools_ && tools_->ended());
  const bool whole = ends || stopped || event.finish == FinishReason::complete;
  if (event.finish || stopped) end(piece, whole ? "stop" : "length");
  release(piece, event.finish && !stopped);
  return piece;
}

// Returns the number of characters in the response so far, including an unfinished one.
int64_t AnswerChoice::begun_chars() const {
  return stream_ ? stream_->read_chars() + (stream_->inside_char() ? 1 : 0) : 0;
}

std::string AnswerChoice::without_calls(std::string text, AnswerPiece& piece) {
  if (!tools_) return text;
  ToolCallParser::Found found = tools_->push(text);
  for (ToolCall& call : found.calls)
    piece.calls.push_back(std::move(call));
  called_ = called_ || !piece.calls.empty();
  return std::move(found.text);
}

void AnswerChoice::end(AnswerPiece& piece, const char* reason) {
  finish_ = reason;
  if (!tools_) return;
  ToolCallParser::Found rest = tools_->finish();
  piece.text += rest.text;
  for (ToolCall& call : rest.calls)
    piece.calls.push_back(std::move(call));
  called_ = called_ || !piece.calls.empty();
  if (called_ && finish_ == std::string_view("stop")) finish_ = "tool_calls";
}

// Releases the tokens whose text has been returned. At the end, releases all tokens except those that belong
// entirely to a stop string.
void AnswerChoice::release(AnswerPiece& piece, bool all) {
  const int64_t shown = stream_ ? stream_->shown_chars() : 0;
  const auto is_out = [&](const Waiting& w) {
    return all || w.end <= shown || (finish_ != nullptr && w.begin < shown);
  };
  const auto last = std::ranges::find_if_not(waiting_, is_out);
  for (auto it = waiting_.begin(); it != last; ++it)
    piece.tokens.push_back(std::move(it->entry));
  waiting_.erase(waiting_.begin(), last);
}

}  // namespace gpt::serve
