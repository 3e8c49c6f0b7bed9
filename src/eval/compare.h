#pragma once

#include "eval/evaluate.h"

namespace gpt {

struct Backend;

// How far the next-token distributions of a model computed in one type (q) are from those of the same model
// computed in another (p), over a text.
struct Comparison {
  EvalResult result, against;  // of q and of p
  // Kullback-Leibler divergence of p from q, sum p log(p / q), in nats: mean, 99th percentile and maximum
  // over the predicted tokens.
  double kl_mean = 0, kl_99 = 0, kl_max = 0;
  double same_top = 0;  // share of predictions whose likeliest token is the same
};

// Evaluates in options.dtype and in `against` side by side, in the windows and with the errors of
// evaluate(); options.batch_size has no meaning here.
Comparison compare(const Model& model, const TokenSpan& data, const EvalOptions& options, DType against,
                   const Backend& backend,
                   const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace gpt
