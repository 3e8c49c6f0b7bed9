#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "model/model.h"
#include "model/training_graph.h"
#include "run/run_data.h"
#include "text/tokenizer.h"
#include "train/documents.h"
#include "train/sharded_weights.h"

namespace gpt {

class EvalBatches;

struct EvalLosses {
  double val = 0;               // validation loss in nats per token
  std::optional<double> train;  // loss on the training text, with eval_train
};

// The loss over the held-out text in order, in which each token except the first is predicted once, as in
// `gpt eval`. EvalLosses use random windows of this text.
struct WholeLosses {
  int64_t tokens = 0, all = 0;  // predicted tokens, and tokens of the whole text
  double last = 0;              // loss of the model in last/, in nats per token
  std::optional<double> best;   // loss of the model in best/, if it is a different model
};

// Returns the number of tokens to predict at the end of a run: all validation tokens, but at most as many as
// the run was trained on. The evaluation of each model then takes at most a third of the training time.
int64_t whole_eval_tokens(int64_t val_tokens, int64_t trained_tokens);

// Evaluates a run on the same batches of the validation text every time, and with eval_train on as many
// batches of the training text, without dropout. Does not change the state of the training. Ranks share the
// batches; every rank receives the losses, which do not depend on the number of ranks.
class Evaluator {
 public:
  // model, data and sharded weights must outlive the evaluator.
  Evaluator(const Model& model, const RunData& data, const TrainConfig& config, const Objective& objective,
            const Backend& backend, Communicator& processes = single_process(),
            ShardedWeights* sharded = nullptr);
  // Computes the losses. Calls `interrupted` before each micro-batch and returns nothing if it returns true,
  // which must be on all ranks or none.
  std::optional<EvalLosses> losses(const std::function<bool()>& interrupted);

 private:
  std::vector<double> loss_and_weight(const EvalBatches& batches, int64_t micro_batch);
  std::optional<double> loss_of(const TokenSpan& text, const std::function<bool()>& interrupted);

  const RunData& data_;
  const TrainConfig& config_;
  const Objective& objective_;
  Communicator& processes_;
  ShardedWeights* sharded_;
  int64_t n_ctx_;
  TrainingGraph graph_;
  std::vector<int32_t> ids_, targets_;
  std::vector<uint8_t> starts_;
  PackedDocuments documents_;
};

struct Backend;

inline constexpr int kSampleTokens = 200;

// Samples a short text from a model in training: the prompt is a newline (or the first token if the
// vocabulary has none), kSampleTokens tokens, temperature 0.8, top-k 40. Equal weights, seed and step give
// equal text. Calls `interrupted` after every token and returns nothing if it returns true.
std::optional<std::string> sample_text(const Model& model, const Tokenizer& tokenizer, const Backend& backend,
                                       DType weights, uint64_t seed, int64_t step,
                                       const std::function<bool()>& interrupted);

}  // namespace gpt
