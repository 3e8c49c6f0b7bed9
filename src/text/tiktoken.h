#pragma once

#include <string>
#include <string_view>

#include "text/bpe_tokenizer.h"

namespace gpt::detail {

// Whether a file looks like tiktoken's ranks: lines of a token in base64, a blank and its rank.
bool is_rank_file(std::string_view content);

// Such a file. It says neither how text is split nor which special tokens there are. A published vocabulary
// (r50k_base, p50k_base, cl100k_base, o200k_base, Llama 3) is known by its number of ranks; for others the
// file's name must hold that of a pattern (gpt2, cl100k, llama3, nanochat, o200k), and there are no special
// tokens. Throws Error, naming the file and the line.
BpeParts read_rank_file(std::string_view content, const std::string& name);

}  // namespace gpt::detail
