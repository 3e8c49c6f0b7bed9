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
  double val = 0;               // nats per token
  std::optional<double> train;  // of the training text, with eval_train
};

// The loss over the held-out text in order, each token but the first predicted once, as `gpt eval` computes
// it; EvalLosses are of random windows of it.
struct WholeLosses {
  int64_t tokens = 0, all = 0;  // predicted; of the whole text
  double last = 0;              // of the model in last/, nats per token
  std::optional<double> best;   // of the model in best/, where that is another one
};

// How many of these tokens are predicted at the end of a run that was trained on so many: all, unless that is
// more than the run was trained on. So it takes at most a third of the time of training for each model.
int64_t whole_eval_tokens(int64_t val_tokens, int64_t trained_tokens);

// Evaluates a run: the same batches of the validation text every time, and with eval_train as many of the
// training text. Without dropout, and nothing of the training changes by it. Several processes share the
// batches, and all know the losses, which are those of one.
class Evaluator {
 public:
  // The model, the data and what divides the weights, if anything does, must outlive this.
  Evaluator(const Model& model, const RunData& data, const TrainConfig& config, const Objective& objective,
            const Backend& backend, Communicator& processes = single_process(),
            ShardedWeights* sharded = nullptr);
  // `interrupted` is asked before each micro-batch; nothing comes back where it says true, to all or none.
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

// A short text from a model in training: prompt newline (or the first token where there is none),
// kSampleTokens tokens, temperature 0.8, top-k 40. The same for equal weights, seed and step. Nothing when
// `interrupted`, asked after every token, says so.
std::optional<std::string> sample_text(const Model& model, const Tokenizer& tokenizer, const Backend& backend,
                                       DType weights, uint64_t seed, int64_t step,
                                       const std::function<bool()>& interrupted);

}  // namespace gpt
