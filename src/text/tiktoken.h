#pragma once

#include <string>
#include <string_view>

#include "text/bpe_tokenizer.h"

namespace gpt::detail {

// Returns true if a file looks like tiktoken ranks. Each line of the file has a token in base64, a space, and
// the rank of the token.
bool is_rank_file(std::string_view content);

// Reads a file of tiktoken ranks. The file does not define how text is split or which special tokens exist. A
// published vocabulary (r50k_base, p50k_base, cl100k_base, o200k_base, Llama 3) is recognized by its number
// of ranks. For any other vocabulary, the file name must contain the name of a split pattern (gpt2, cl100k,
// llama3, nanochat, qwen2, o200k), and there are no special tokens. Throws Error with the file name and the
// line number.
BpeParts read_rank_file(std::string_view content, const std::string& name);

}  // namespace gpt::detail
