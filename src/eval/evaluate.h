#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/eval_windows.h"
#include "data/token_data.h"
#include "distributed/communicator.h"
#include "model/model.h"

namespace gpt {

struct Backend;

// Number of tokens computed at a time if no batch size is given. It is large enough for efficient matmuls and
// small enough for the CPU caches.
inline constexpr int64_t kEvalRows = 1024;

struct EvalOptions {
  int64_t n_ctx = 0;         // window length; 0: the model's context
  int64_t stride = 0;        // distance between windows; 0: n_ctx, so that windows do not overlap
  int64_t batch_size = 0;    // windows computed at a time; 0: chosen for speed. Affects rounding only.
  DType dtype = DType::f32;  // dtype of the weights in matmuls
  std::shared_ptr<const Adapter> adapter = nullptr;
  // The ranks that share the windows. All ranks must pass the same text. The result on every rank equals the
  // result of a single process.
  Communicator* processes = &single_process();
  // Called before each batch. Must return the same value on all ranks; true stops the evaluation.
  std::function<bool()> stop = [] { return false; };
  std::function<void()> idle = {};  // called in a round in which this rank has no batch
};

// The loss over a text. Every token except the first is predicted once.
struct EvalResult {
  double nats = 0;         // loss, summed over the predicted tokens
  int64_t tokens = 0;      // number of predicted tokens
  int64_t text_bytes = 0;  // bytes of text that the predicted tokens encode
  int64_t n_ctx = 0, stride = 0;
  bool stopped = false;  // true if EvalOptions::stop ended the evaluation; the sums are incomplete

  double loss() const;           // nats per token
  double perplexity() const;     // e ^ loss
  double bits_per_byte() const;  // 0 if the tokens encode no text
};

// Evaluates a model on all of `data`, in windows (see SequentialWindows), without dropout. Calls `progress`
// with the number of completed windows and the number of all windows. Throws invalid_argument for a window
// longer than the model's context or a stride outside 1 .. n_ctx. Throws Error for fewer than two tokens, for
// a token outside the model's vocabulary, and for a non-finite loss.
EvalResult evaluate(const Model& model, const TokenSpan& data, const EvalOptions& options,
                    const Backend& backend,
                    const std::function<void(int64_t done, int64_t total)>& progress = {});

// The window settings of an evaluation, after all defaults have been replaced by values.
struct Windowing {
  int64_t n_ctx, stride, batch_size;
};

// Throws the errors of evaluate() for invalid options and texts.
Windowing choose_windows(const ModelConfig& config, const TokenSpan& data, const EvalOptions& options);

// Throws Error unless all ids are below vocab_size. Accepts ignored targets.
void check_ids(const std::vector<int32_t>& ids, const std::vector<int32_t>& targets, int64_t vocab_size);

// The reference model of a comparison: a model with the same vocabulary, or the same model in a different
// dtype.
struct ComparedModel {
  const Model& model;
  DType dtype = DType::f32;  // dtype of the weights in matmuls
  std::shared_ptr<const Adapter> adapter = nullptr;
};

// Returns true if the weights of two models have equal shapes, dtypes and bytes.
bool same_weights(const Model& a, const Model& b);

// The result of the comparison of a model with a reference model on a text. q are the next-token
// distributions of the model, and p are the next-token distributions of the reference model.
struct Comparison {
  EvalResult result, against;  // results of q and p
  // Kullback-Leibler divergence of p from q, sum p log(p / q), in nats: mean, 99th percentile and maximum
  // over the predicted tokens.
  double kl_mean = 0, kl_99 = 0, kl_max = 0;
  double same_top = 0;  // share of predictions with the same most likely token
};

// Evaluates both models in the same windows. By default, the windows have the length of the shorter context.
// Ignores options.batch_size. Throws the errors of evaluate(). Also throws Error if the vocabularies have
// different sizes.
Comparison compare(const Model& model, const TokenSpan& data, const EvalOptions& options,
                   const ComparedModel& against, const Backend& backend,
                   const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace gpt
