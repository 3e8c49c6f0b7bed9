#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpt::detail {

// The words of a text as transformers' GPT-1 tokenizer sees them: control characters dropped, white space to
// blanks, Han characters and punctuation alone, decomposed without accents, in lower case. Bytes that belong
// to no valid character are dropped like U+FFFD. Source: BertNormalizer and BertPreTokenizer of Hugging Face
// tokenizers.
std::vector<std::u32string> gpt1_words(std::string_view text);

}  // namespace gpt::detail
