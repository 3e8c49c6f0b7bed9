#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "finetune/examples.h"
#include "text/tokenizer.h"

namespace gpt {

// The tokens that GPT-1 puts around texts: one in front, one between two, one behind, at whose position the
// head reads.
struct TaskTokens {
  int32_t start, delimiter, extract;
  bool operator==(const TaskTokens&) const = default;
};
inline constexpr const char* kTaskTokenNames[] = {"_start_", "_delimiter_", "_classify_"};

// The tokens of a vocabulary: those that its tokenizer has under these names, else the three ids behind its
// last one.
TaskTokens task_tokens(const Tokenizer& tokenizer);
// The tokenizer with these tokens; tokenizers of bytes and characters have no added tokens, and stay as they
// are.
std::shared_ptr<const Tokenizer> tokenizer_with_tokens(std::shared_ptr<const Tokenizer> tokenizer,
                                                       const TaskTokens& tokens);

// An example as the model reads it (Radford et al. 2018, figure 1): s text e; s premise $ hypothesis e; both
// orders of two texts; s context $ choice e for each choice.
struct EncodedExample {
  std::vector<std::vector<int32_t>> rows;
  bool cut = false;
};
// What an example that is too long loses.
const char* cut_part(TaskKind kind);

// Rows of at most max_length tokens, at least 8: the longer text of a row loses its end first, until both are
// equally long. Throws RecordError naming the example where the tokenizer has no token for a text.
EncodedExample encode_example(const Example& example, TaskKind kind, const Tokenizer& tokenizer,
                              const TaskTokens& tokens, int64_t max_length);

}  // namespace gpt
