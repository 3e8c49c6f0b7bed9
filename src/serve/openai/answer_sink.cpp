#include "serve/openai/answer_sink.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/utf8.h"
#include "serve/api_error.h"

namespace gpt::serve {
namespace {

void append(AnswerPiece& all, AnswerPiece piece) {
  all.text += piece.text;
  std::ranges::move(piece.tokens, std::back_inserter(all.tokens));
  std::ranges::move(piece.calls, std::back_inserter(all.calls));
}

}  // namespace

AnswerSink::AnswerSink(AnswerPlan plan, const Tokenizer* tokenizer, std::shared_ptr<Responder> responder,
                       Metrics& metrics, std::function<void(const Usage&)> done)
    : plan_(std::move(plan)),
      format_(plan_.format),
      responder_(std::move(responder)),
      metrics_(metrics),
      done_(std::move(done)) {
  const auto n = static_cast<int64_t>(plan_.prompt_tokens.size()) * plan_.samples;
  for (int64_t i = 0; i < n; ++i) {
    if (!plan_.echo.empty())
      plan_.choice.first_char = count_chars(plan_.echo[static_cast<size_t>(i / plan_.samples)].text);
    Choice& choice = choices_.emplace_back(Choice{AnswerChoice(tokenizer, plan_.choice), {}, {}});
    choice.progress.index = static_cast<size_t>(i);
  }
}

// Starts the stream and sends the chunks that come before the first token.
void AnswerSink::begin() {
  begun_stream_ = true;
  std::string first;
  for (Choice& choice : choices_) {
    if (plan_.format.chat) format_.role_chunk(first, choice.progress.index);
    if (!plan_.echo.empty()) {
      const auto prompt = choice.progress.index / static_cast<size_t>(plan_.samples);
      format_.chunk(first, choice.progress, plan_.echo[prompt], nullptr);
    }
  }
  responder_->begin_stream({.body = std::move(first), .content_type = "text/event-stream"});
}

bool AnswerSink::take(size_t sequence, const Event& event) {
  if (failed_) return false;
  if (plan_.stream && !begun_stream_) begin();
  if (event.finish == FinishReason::error) {
    fail(ApiError(500, "no token can be sampled: " + std::string(event.error), {}, "generation_failed"));
    return false;
  }
  Choice& choice = choices_[sequence];
  choice.cached = event.reused;
  measure(choice);
  AnswerPiece piece = choice.text.push(event);
  const char* finish = choice.text.finish();
  if (!plan_.stream) {
    append(choice.all, std::move(piece));
  } else if (!piece.empty() || finish != nullptr) {
    format_.chunk(outgoing_, choice.progress, piece, finish);
  }
  return finish == nullptr;
}

void AnswerSink::measure(Choice& choice) {
  const auto now = Clock::now();
  const auto seconds = [&](Clock::time_point since) {
    return std::chrono::duration<double>(now - since).count();
  };
  if (choice.last != Clock::time_point{}) metrics_.token_time.add(seconds(choice.last));
  if (first_) metrics_.first_token_time.add(seconds(begun_));
  first_ = false;
  choice.last = now;
}

void AnswerSink::end_step(bool all_ended) {
  if (failed_) return;
  if (!plan_.stream) {
    if (all_ended) end_whole();
    return;
  }
  if (all_ended) {
    if (plan_.format.include_usage) format_.usage_chunk(outgoing_, usage());
    outgoing_ += AnswerFormat::kDone;
  }
  if (all_ended) done_(usage());
  if (!outgoing_.empty()) responder_->write(outgoing_);
  outgoing_.clear();
  if (all_ended) responder_->end();
}

void AnswerSink::finish_without_tokens() {
  if (plan_.stream) {
    begin();
    for (Choice& choice : choices_)
      format_.chunk(outgoing_, choice.progress, {}, "length");
  }
  end_step(true);
}

void AnswerSink::end_whole() {
  std::vector<AnswerFormat::WholeChoice> whole;
  for (size_t prompt = 0; prompt < plan_.prompt_tokens.size(); ++prompt) {
    for (const size_t i : best_of(prompt)) {
      Choice& choice = choices_[i];
      AnswerPiece all = plan_.echo.empty() ? AnswerPiece() : plan_.echo[prompt];
      append(all, std::move(choice.all));
      const char* finish = choice.text.finish() == nullptr ? "length" : choice.text.finish();
      whole.push_back({std::move(all), finish});
    }
  }
  done_(usage());
  responder_->send({.body = format_.whole(whole, usage())});
}

// Returns the choices of a prompt. If there are more samples than choices, returns those with the highest
// log-probability per token, best first.
std::vector<size_t> AnswerSink::best_of(size_t prompt) const {
  const auto samples = static_cast<size_t>(plan_.samples), n = static_cast<size_t>(plan_.choices);
  std::vector<size_t> order(samples);
  std::iota(order.begin(), order.end(), prompt * samples);
  if (n == samples) return order;
  const auto mean = [&](size_t i) {
    const AnswerChoice& text = choices_[i].text;
    return text.logprob_sum() / static_cast<double>(std::max<int64_t>(text.tokens(), 1));
  };
  std::ranges::stable_sort(order, std::greater<>(), mean);
  order.resize(n);
  return order;
}

// Counts each prompt once, even if it has several responses. The cached tokens are those of the prompt's
// first response.
Usage AnswerSink::usage() const {
  Usage u;
  for (size_t i = 0; i < choices_.size(); ++i)
    u.completion += choices_[i].text.tokens();
  const auto samples = static_cast<size_t>(plan_.samples);
  for (size_t prompt = 0; prompt < plan_.prompt_tokens.size(); ++prompt) {
    u.prompt += plan_.prompt_tokens[prompt];
    u.cached += choices_[prompt * samples].cached;
  }
  return u;
}

void AnswerSink::fail(const std::exception& error) {
  if (failed_) return;
  failed_ = true;
  const ApiError told = failure_of(error);
  done_(usage());
  if (!begun_stream_) return responder_->send(told.reply());
  responder_->write(outgoing_ + "data: " + told.body() + "\n\n");
  responder_->end();
}

}  // namespace gpt::serve
