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

// Tokens computed at once unless a batch size is given: enough rows for efficient matrix products, few enough
// for the caches.
inline constexpr int64_t kEvalRows = 1024;

struct EvalOptions {
  int64_t n_ctx = 0;         // window length; 0: the model's context
  int64_t stride = 0;        // between windows; 0: n_ctx, so that they do not overlap
  int64_t batch_size = 0;    // windows computed at once; 0: chosen for speed. Changes rounding only.
  DType dtype = DType::f32;  // of products with weights
  std::shared_ptr<const Adapter> adapter = nullptr;
  // That share the windows: all call with the same text and know the result, which is that of one.
  Communicator* processes = &single_process();
  // Asked before each batch, in agreement among the processes: true ends the evaluation.
  std::function<bool()> stop = [] { return false; };
  std::function<void()> idle = {};  // called in a round that has no batch for this process
};

// The loss over a text, every token but the first predicted once.
struct EvalResult {
  double nats = 0;         // summed
  int64_t tokens = 0;      // predicted
  int64_t text_bytes = 0;  // that the predicted tokens stand for
  int64_t n_ctx = 0, stride = 0;
  bool stopped = false;  // by EvalOptions::stop: the sums are not complete

  double loss() const;           // nats per token
  double perplexity() const;     // e ^ loss
  double bits_per_byte() const;  // 0 when the tokens stand for no text
};

// Evaluates a model on all of `data`, in windows (see SequentialWindows), without dropout.
// `progress` is called with the windows done and in all. Throws invalid_argument for a window longer than the
// model's context or a stride outside 1 .. n_ctx, Error for fewer than two tokens, a token that the model
// does not know, or a loss that is not finite.
EvalResult evaluate(const Model& model, const TokenSpan& data, const EvalOptions& options,
                    const Backend& backend,
                    const std::function<void(int64_t done, int64_t total)>& progress = {});

// The windows that a text is evaluated in: the options with every default filled in.
struct Windowing {
  int64_t n_ctx, stride, batch_size;
};

// Throws Error as evaluate() says.
Windowing choose_windows(const ModelConfig& config, const TokenSpan& data, const EvalOptions& options);

// Throws Error unless a model with so many tokens knows all of them; ignored targets count as known.
void check_ids(const std::vector<int32_t>& ids, const std::vector<int32_t>& targets, int64_t vocab_size);

// What a model is compared with: a model of the same vocabulary, or itself in another type.
struct ComparedModel {
  const Model& model;
  DType dtype = DType::f32;  // of products with weights
  std::shared_ptr<const Adapter> adapter = nullptr;
};

// Whether two models are computed from the same numbers: equal configs and weights of equal types and bytes.
bool same_weights(const Model& a, const Model& b);

// How far the next-token distributions of a model (q) are from those of the one that it is compared with (p),
// over a text.
struct Comparison {
  EvalResult result, against;  // of q and of p
  // Kullback-Leibler divergence of p from q, sum p log(p / q), in nats: mean, 99th percentile and maximum
  // over the predicted tokens.
  double kl_mean = 0, kl_99 = 0, kl_max = 0;
  double same_top = 0;  // share of predictions whose likeliest token is the same
};

// Evaluates both side by side, in the windows and with the errors of evaluate(), by default in windows of the
// shorter context; options.batch_size has no meaning here. Throws Error for vocabularies of different sizes.
Comparison compare(const Model& model, const TokenSpan& data, const EvalOptions& options,
                   const ComparedModel& against, const Backend& backend,
                   const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace gpt
