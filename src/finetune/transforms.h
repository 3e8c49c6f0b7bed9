#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "finetune/examples.h"
#include "text/tokenizer.h"

namespace gpt {

// The special tokens that GPT-1 adds to texts: one before the first text, one between texts, and one after
// the last text. The head reads the hidden state at the last token.
struct TaskTokens {
  int32_t start, delimiter, extract;
  bool operator==(const TaskTokens&) const = default;
};
inline constexpr const char* kTaskTokenNames[] = {"_start_", "_delimiter_", "_classify_"};

// Returns the special tokens of a tokenizer. If the tokenizer does not have tokens with these names, returns
// the three ids after its last id.
TaskTokens task_tokens(const Tokenizer& tokenizer);
// Returns the tokenizer with these tokens added. Byte and character tokenizers do not support added tokens
// and are returned unchanged.
std::shared_ptr<const Tokenizer> tokenizer_with_tokens(std::shared_ptr<const Tokenizer> tokenizer,
                                                       const TaskTokens& tokens);

// Stores an example as the rows that the model reads (Radford et al. 2018, figure 1). Let s be the start
// token, $ the delimiter and e the extract token. The row of a text is "s text e", and the row of an
// entailment example is "s premise $ hypothesis e". An example of `similar` has two rows, one for each order
// of its texts. An example of `choose` has a row "s context $ choice e" for each choice.
struct EncodedExample {
  std::vector<std::vector<int32_t>> rows;
  bool cut = false;
};
// Returns a description of the part that is removed from an example that is too long.
const char* cut_part(TaskKind kind);

// Encodes an example as rows of at most max_length tokens; max_length must be at least 8. In a row that is
// too long, tokens are removed from the end of the longer text until both texts have the same length. Throws
// RecordError naming the example if the tokenizer cannot encode a text.
EncodedExample encode_example(const Example& example, TaskKind kind, const Tokenizer& tokenizer,
                              const TaskTokens& tokens, int64_t max_length);

}  // namespace gpt
