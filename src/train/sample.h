#pragma once

#include <functional>
#include <optional>
#include <string>

#include "model/model.h"
#include "text/tokenizer.h"

namespace gpt {

struct Backend;

inline constexpr int kSampleTokens = 200;

// A short text from a model in training: prompt newline (or the first token where there is none),
// kSampleTokens tokens, temperature 0.8, top-k 40. The same for equal weights, seed and step. Nothing when
// `interrupted`, asked after every token, says so.
std::optional<std::string> sample_text(const Model& model, const Tokenizer& tokenizer, const Backend& backend,
                                       DType weights, uint64_t seed, int64_t step,
                                       const std::function<bool()>& interrupted);

}  // namespace gpt
