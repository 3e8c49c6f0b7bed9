#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "serve/http/http.h"
#include "serve/metrics.h"
#include "serve/models/engine_worker.h"
#include "serve/openai/answer_format.h"

namespace gpt::serve {

// Describes a response. For each prompt, `samples` sequences are generated and the best `choices` of them are
// returned.
struct AnswerPlan {
  bool stream = false;
  int64_t samples = 1, choices = 1;
  AnswerChoice::Options choice = {};
  AnswerFormat::Options format = {};
  std::vector<int64_t> prompt_tokens;  // number of tokens in each prompt
  std::vector<AnswerPiece> echo;       // text before the responses to each prompt; may be empty
};

// Builds the response to a request from the engine's tokens and sends it, either as a stream or when it is
// complete.
class AnswerSink : public TokenSink {
 public:
  // `done` is called with the token counts just before the end of the response is sent.
  AnswerSink(AnswerPlan plan, const Tokenizer* tokenizer, std::shared_ptr<Responder> responder,
             Metrics& metrics, std::function<void(const Usage&)> done);

  void finish_without_tokens();  // sends a response that consists only of the echoed prompt
  bool take(size_t sequence, const Event& event) override;
  void end_step(bool all_ended) override;
  void fail(const std::exception& error) override;

 private:
  struct Choice {
    AnswerChoice text;
    AnswerPiece all;  // collected so far, if the response is sent whole
    AnswerFormat::Progress progress;
    int64_t cached = 0;
    Clock::time_point last = {};
  };
  void begin();
  void measure(Choice& choice);
  void end_whole();
  std::vector<size_t> best_of(size_t prompt) const;
  Usage usage() const;

  AnswerPlan plan_;
  AnswerFormat format_;
  std::shared_ptr<Responder> responder_;
  Metrics& metrics_;
  std::function<void(const Usage&)> done_;
  std::vector<Choice> choices_;
  std::string outgoing_;
  Clock::time_point begun_ = Clock::now();
  bool begun_stream_ = false, failed_ = false, first_ = true;
};

}  // namespace gpt::serve
