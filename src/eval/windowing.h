#pragma once

#include <vector>

#include "data/eval_windows.h"
#include "eval/evaluate.h"

namespace gpt {

// The windows that a text is evaluated in: the options with every default filled in.
struct Windowing {
  int64_t n_ctx, stride, batch_size;
};

// Throws UsageError and Error as evaluate() says.
Windowing choose_windows(const ModelConfig& config, const TokenSpan& data, const EvalOptions& options);

// Throws Error unless a model with so many tokens knows all of them; ignored targets count as known.
void check_ids(const std::vector<int32_t>& ids, const std::vector<int32_t>& targets, int64_t vocab_size);

}  // namespace gpt
