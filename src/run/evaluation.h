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

// Stores the loss on the held-out text. As in `gpt eval`, the text is read from its start, and every token
// except the first is predicted once. In contrast, EvalLosses are computed on random windows of the text.
struct WholeLosses {
  int64_t tokens = 0, all = 0;  // number of predicted tokens, and number of tokens in the whole text
  double last = 0;              // loss of the model in last/, in nats per token
  std::optional<double> best;   // loss of the model in best/, if it differs from last/
};

// Returns the number of tokens to evaluate at the end of a run. This is the number of validation tokens,
// limited to the number of tokens trained on. With this limit, the evaluation of a model takes at most a
// third of the training time.
int64_t whole_eval_tokens(int64_t val_tokens, int64_t trained_tokens);

// Evaluates a model during training. Each evaluation uses the same batches of the validation text. With
// eval_train, an evaluation also computes the loss on the same number of batches of the training text,
// without dropout. Evaluation does not change the training state. The batches are divided among the ranks.
// Every rank receives the losses, which do not depend on the number of ranks.
class Evaluator {
 public:
  // `model`, `data` and `sharded` must outlive the evaluator.
  Evaluator(const Model& model, const RunData& data, const TrainConfig& config, const Objective& objective,
            const Backend& backend, Communicator& processes = single_process(),
            ShardedWeights* sharded = nullptr);
  // Computes the losses. Calls `interrupted` before each micro-batch, and returns nothing if `interrupted`
  // returns true. `interrupted` must return the same value on all ranks.
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

// Samples a short text of kSampleTokens tokens from a model in training, with temperature 0.8 and top-k 40.
// The prompt is a newline, or the first token if the vocabulary has no newline. The text only depends on the
// weights, the seed and the step. Calls `interrupted` after every token, and returns nothing if `interrupted`
// returns true.
std::optional<std::string> sample_text(const Model& model, const Tokenizer& tokenizer, const Backend& backend,
                                       DType weights, uint64_t seed, int64_t step,
                                       const std::function<bool()>& interrupted);

}  // namespace gpt
