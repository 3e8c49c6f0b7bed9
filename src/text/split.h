#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gpt {

// The regular expressions with which byte-level BPE tokenizers split a text into pieces before merging. Each
// regular expression is implemented in hand-written code.
enum class SplitPattern : uint8_t {
  gpt2,      // GPT-2, GPT-3
  cl100k,    // GPT-4 in tiktoken: white space at the end of a text is one piece
  llama3,    // like cl100k, but white space at the end of a text is also split after its last newline
  nanochat,  // like llama3, with numbers of up to two digits
  qwen2,     // like llama3, with single digits
  o200k,     // GPT-4o: words are also split at changes of letter case
};

// Returns the regular expression of a pattern in the spelling of its publisher.
std::string_view split_regex(SplitPattern pattern);
// Returns the pattern of a regular expression. All known spellings of a pattern are recognized. Returns
// nullopt for other regular expressions.
std::optional<SplitPattern> find_split_pattern(std::string_view regex);

// gguf_name() returns the name of a pattern in GGUF files (tokenizer.ggml.pre). pattern_of_gguf_name()
// returns the pattern of a name, or nullopt if the name is unknown. Source: llama.cpp. The names of cl100k
// and nanochat are our own.
std::string_view gguf_name(SplitPattern pattern);
std::optional<SplitPattern> pattern_of_gguf_name(std::string_view name);
std::vector<std::string_view> gguf_names();  // names of all patterns

// Returns the end of the piece that begins at byte `at` < text.size(). The pieces cover the whole text. If a
// text is cut at the end of a piece, the rest of the text is split in the same way. Reads the text once,
// without recursion. An invalid UTF-8 byte counts as a character that is neither a letter, a number nor white
// space.
size_t split_end(SplitPattern pattern, std::string_view text, size_t at);

}  // namespace gpt
