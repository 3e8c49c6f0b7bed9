#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/objects.h"
#include "infer/cached_model.h"
#include "infer/engine.h"

namespace gptcpp {

// Returns the options of the single-slot engine that implements a session.
EngineOptions engine_options(const SessionOptions& options);

// A model that is ready for inference. Has its own KV cache and activations, and uses the threads of the
// context.
class Decoder {
 public:
  Decoder(std::shared_ptr<const Model::Impl> model, const EngineOptions& options);
  const Model::Impl& model() const { return *model_; }
  // Throws invalid_argument for invalid options.
  gpt::Request request(std::vector<int32_t> prompt, const GenerateOptions& options);
  gpt::Speculation speculation() const;  // the result refers to this object
  // Adds up the named adapters and returns the index of the sum in `inference`, or -1 if `names` is empty.
  // The index is valid as long as the caller holds the pointer. Unused sums stay cached while memory allows.
  // At most kMostSums sums exist at the same time.
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
  std::vector<AdapterSum> sums_;  // least recently used first
  gpt::Speculation speculation_;
  // The draft model; its forward passes never run concurrently with those of this decoder.
  std::unique_ptr<Decoder> draft_;
};

// The part of a response that has been generated so far.
class Answer {
 public:
  Answer(const Model::Impl& model, const std::vector<std::string>& stops, bool drop_blank = false);

  // Adds an event and returns its text. The text does not include a token that ended the response. The last
  // event also adds the text that was held back until then. If the model has no tokenizer, the text is always
  // empty.
  std::string add(const gpt::Event& event);
  // Adds an event and passes its text to the callback. Returns false if the callback or a stop string ends
  // the text.
  bool take(const gpt::Event& event, const OnPiece& on_piece);
  bool stopped() const { return stream_ && stream_->stopped(); }

  Result result;

 private:
  std::optional<gpt::TextStream> stream_;
};

// Generates the response to one request. If the function throws, `answer` still contains the tokens that were
// sampled before the error.
void generate_alone(Decoder& decoder, gpt::Request request, const OnPiece& on_piece, Answer& answer);

bool ends_text(const gpt::Event& event);  // true if the event's token is not part of the text
Finish finish_of(gpt::FinishReason reason);

// Maximum number of tokens per forward pass. `cancelled` is checked between two forward passes.
constexpr int64_t kStepRows = 512;

}  // namespace gptcpp
