#include "run/evaluation.h"

#include <algorithm>

#include "base/fault_point.h"
#include "base/utf8.h"
#include "data/eval_windows.h"
#include "distributed/shares.h"
#include "infer/cached_model.h"
#include "infer/generate.h"

namespace gpt {

int64_t whole_eval_tokens(int64_t val_tokens, int64_t trained_tokens) {
  return std::max<int64_t>(1, std::min(val_tokens - 1, trained_tokens));
}

Evaluator::Evaluator(const Model& model, const RunData& data, const TrainConfig& config,
                     const Objective& objective, const Backend& backend, Communicator& processes,
                     ShardedWeights* sharded)
    : data_(data),
      config_(config),
      objective_(objective),
      processes_(processes),
      sharded_(sharded),
      n_ctx_(model.config.n_ctx),
      graph_(model, config.micro_batch, n_ctx_,
             {.gradients = false, .dtype = tensor_dtype(config.dtype), .objective = &objective}, backend),
      ids_(static_cast<size_t>(config.micro_batch * n_ctx_)),
      targets_(ids_.size()),
      starts_(ids_.size()) {}

std::optional<EvalLosses> Evaluator::losses(const std::function<bool()>& interrupted) {
  const auto val = loss_of(data_.val, interrupted);
  if (!val) return std::nullopt;
  EvalLosses losses{.val = *val, .train = {}};
  if (!config_.eval_train) return losses;
  losses.train = loss_of(data_.train, interrupted);
  if (!losses.train) return std::nullopt;
  return losses;
}

std::optional<double> Evaluator::loss_of(const TokenSpan& text, const std::function<bool()>& interrupted) {
  const EvalBatches batches(text, n_ctx_, static_cast<uint64_t>(config_.seed), config_.eval_batches,
                            config_.batch_size);
  const int64_t parts = batches.batches() * batches.batch_size() / config_.micro_batch;
  const auto idle = [this] {
    if (sharded_ != nullptr) sharded_->walk();
  };
  const auto losses = compute_in_shares(
      processes_, parts, [&](int64_t i) { return loss_and_weight(batches, i); }, interrupted, "evaluation",
      idle);
  if (!losses) return std::nullopt;
  double loss = 0, weight = 0;
  for (size_t i = 0; i < losses->size(); i += 2) {
    loss += (*losses)[i];
    weight += (*losses)[i + 1];
  }
  return weight > 0 ? loss / weight : 0;
}

std::vector<double> Evaluator::loss_and_weight(const EvalBatches& batches, int64_t micro_batch) {
  fault_point("train.evaluation", micro_batch);
  const int64_t in_batch = batches.batch_size() / config_.micro_batch;
  batches.fill(micro_batch / in_batch, micro_batch % in_batch * config_.micro_batch, config_.micro_batch,
               ids_.data(), targets_.data());
  TrainBatch batch{.ids = ids_.data(), .targets = targets_.data()};
  std::fill(starts_.begin(), starts_.end(), uint8_t{0});
  if (data_.document_end >= 0) PackedDocuments::mark(data_.document_end, ids_, targets_, starts_);
  documents_.split(n_ctx_, starts_, batch);
  return {graph_.loss(batch), objective_.weight(batch, std::ssize(ids_))};
}

std::optional<std::string> sample_text(const Model& model, const Tokenizer& tokenizer, const Backend& backend,
                                       DType weights, uint64_t seed, int64_t step,
                                       const std::function<bool()>& interrupted) {
  std::vector<int32_t> prompt = {0};
  try {
    prompt = tokenizer.encode("\n");
  } catch (const Error&) {  // the vocabulary has no newline
  }
  Inference inference(model, backend, {.slots = 1, .max_rows = 64, .weights = weights});
  CachedModel sequences(inference, false);
  const GenerateOptions options{.max_tokens = kSampleTokens,
                                .sampling = SamplingParams(),
                                .seed = seed + static_cast<uint64_t>(step),
                                .context = ContextPolicy::crop};
  bool stopped = false;
  const std::vector<Completion> out =
      generate(sequences, std::vector<std::vector<int32_t>>{prompt}, options, [&](const TokenEvent&) {
        stopped = stopped || interrupted();
        return !stopped;
      });
  if (stopped) return {};
  std::string text;
  for (int32_t id : out.at(0).ids) {
    if (id < tokenizer.vocab_size()) text += tokenizer.token_bytes(id);
  }
  return replace_invalid_utf8(text);
}

}  // namespace gpt
