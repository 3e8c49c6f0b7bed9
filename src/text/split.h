#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gpt {

// How a byte-level BPE cuts a text into pieces before any merge: the published regular expressions, by hand.
enum class SplitPattern : uint8_t {
  gpt2,      // GPT-2, GPT-3
  cl100k,    // GPT-4, as tiktoken has it: white space at the end of a text stays whole
  llama3,    // the same, but white space is cut after its last newline there too
  nanochat,  // that with numbers of up to two digits
  qwen2,     // that with single digits
  o200k,     // GPT-4o: words are cut where case says so
};

// The regular expression that a pattern implements, in the spelling of its publisher.
std::string_view split_regex(SplitPattern pattern);
// The pattern that a regular expression stands for, in any spelling that is known; nothing for all others.
std::optional<SplitPattern> find_split_pattern(std::string_view regex);

// The name of a pattern in GGUF files (tokenizer.ggml.pre), and the pattern of a name; nothing for unknown
// ones. Source: llama.cpp, where cl100k and nanochat have no name of their own.
std::string_view gguf_name(SplitPattern pattern);
std::optional<SplitPattern> pattern_of_gguf_name(std::string_view name);
std::vector<std::string_view> gguf_names();  // of all patterns

// The end of the piece that begins at byte `at` < text.size(). Pieces cover the text; what is left of a text
// cut at the end of a piece is split in the same way. Works through the text once, without recursion. A byte
// that belongs to no valid character counts as a character that is no letter, number or white space.
size_t split_end(SplitPattern pattern, std::string_view text, size_t at);

}  // namespace gpt
