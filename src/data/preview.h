#pragma once

#include <cstdint>
#include <string>

#include "data/corpus.h"
#include "data/token_data.h"

namespace gpt {

// Returns a few lines about a loaded corpus: its size, its number of distinct bytes and characters, and its
// first 200 characters.
std::string preview_corpus(const Corpus& corpus);

// Returns one line with the number of training and validation tokens and the size of the vocabulary.
std::string preview_split(const TokenSplit& split, const Tokenizer& tokenizer);

// Returns the shapes of a batch of batch_size sequences, followed by its first rows. Each row shows the first
// ids and 50 characters of x and y. `ids` and `targets` hold the first `rows` rows of the batch, [rows,
// n_ctx]. Ignored targets are shown as -1 and left out of the text.
std::string preview_batch(const Tokenizer& tokenizer, const int32_t* ids, const int32_t* targets,
                          int64_t rows, int64_t batch_size, int64_t n_ctx);

// Maximum number of rows that preview_batch shows.
inline constexpr int64_t kPreviewRows = 2;

// Returns the first tokens of a row [n_ctx] in columns. A column shows the text and the id of a token, and
// below it the target that the model must predict from this token and all tokens before it.
std::string preview_pairs(const Tokenizer& tokenizer, const int32_t* ids, const int32_t* targets,
                          int64_t n_ctx);

}  // namespace gpt
