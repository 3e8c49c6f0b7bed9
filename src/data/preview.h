#pragma once

#include <cstdint>
#include <string>

#include "data/corpus.h"
#include "data/token_data.h"

namespace gpt {

// A few lines on what was loaded: size, distinct bytes and characters, the first 200 characters.
std::string preview_corpus(const Corpus& corpus);

// One line with the sizes of both parts and the vocabulary.
std::string preview_split(const TokenSplit& split, const Tokenizer& tokenizer);

// The shapes of a batch of batch_size sequences, which of its rows are shown, and of these the first ids and
// 50 characters of x and y. ids and targets are the batch's first `rows` rows, [rows, n_ctx]; ignored targets
// (-1) are shown as such and left out of the text.
std::string preview_batch(const Tokenizer& tokenizer, const int32_t* ids, const int32_t* targets,
                          int64_t rows, int64_t batch_size, int64_t n_ctx);

// How many rows of a batch preview_batch shows at most.
inline constexpr int64_t kPreviewRows = 2;

// The first tokens of a row [n_ctx] in columns: text and id, and below each the target that the model must
// predict from it and all before.
std::string preview_pairs(const Tokenizer& tokenizer, const int32_t* ids, const int32_t* targets,
                          int64_t n_ctx);

}  // namespace gpt
