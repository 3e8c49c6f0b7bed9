#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/objects.h"
#include "infer/cached_model.h"
#include "infer/engine.h"

namespace gptcpp {

// A session is an engine of one text.
EngineOptions engine_options(const SessionOptions& options);

// A model that computes, with memory of its own and threads of the context.
class Decoder {
 public:
  Decoder(std::shared_ptr<const Model::Impl> model, const EngineOptions& options);
  const Model::Impl& model() const { return *model_; }
  gpt::Request request(std::vector<int32_t> prompt, const GenerateOptions& options);  // checked
  gpt::Speculation speculation() const;                                               // refers to this
  // The number in `inference` of the sum of these adapters, -1 without names. It is valid as long as the
  // pointer lives; sums that nobody uses are kept while there is memory, up to kMostSums in all.
  std::shared_ptr<const int> adapter(const std::vector<std::string>& names);
  static constexpr int64_t kMostSums = 32;

 private:
  struct AdapterSum {
    std::vector<std::string> names;
    Claim claim;
    std::shared_ptr<const int> number;
  };
  Claim claim_adapters(const std::vector<gpt::WeightedAdapter>& adapters);
  bool free_unused_sum();
  void open_draft(const EngineOptions& options);

  std::shared_ptr<const Model::Impl> model_;
  gpt::Inference::Options options_;
  int threads_;
  Claim claim_;

 public:
  gpt::ContextPolicy policy;
  gpt::ThreadPool pool;
  gpt::Inference inference;
  gpt::CachedModel cached;

 private:
  std::vector<AdapterSum> sums_;  // the one that was used last is the last
  gpt::Speculation speculation_;
  std::unique_ptr<Decoder> draft_;  // which computes when this does not
};

// What one request has got so far.
class Answer {
 public:
  Answer(const Model::Impl& model, const std::vector<std::string>& stops, bool drop_blank = false);

  // Takes an event in. The text that it adds: without a token that ended the text, and after the last event
  // with what was held back; nothing without a tokenizer.
  std::string add(const gpt::Event& event);
  // The same, and shows it; whether the text goes on.
  bool take(const gpt::Event& event, const OnPiece& on_piece);
  bool stopped() const { return stream_ && stream_->stopped(); }

  Result result;

 private:
  std::optional<gpt::TextStream> stream_;
};

// Goes on with a request alone. What a call that throws had drawn is in the answer.
void generate_alone(Decoder& decoder, gpt::Request request, const OnPiece& on_piece, Answer& answer);

bool ends_text(const gpt::Event& event);  // its token is no part of it
Finish finish_of(gpt::FinishReason reason);

constexpr int64_t kStepRows = 512;  // ids that go through the model between two looks at `cancelled`

}  // namespace gptcpp
