#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/tokenizer.h"

namespace gpt::detail {

// GPT-1's BPE over the characters of words, the last of which carries </w>.
struct Gpt1Parts {
  std::vector<std::string> tokens;  // by id; empty: none
  std::vector<Bpe::Merge> merges;
  std::vector<AddedToken> added;
  int64_t unk = -1;  // for characters that are not in the vocabulary; -1: they are an error
};

// Throws Error for contradictions between the parts.
std::unique_ptr<Tokenizer> make_gpt1_tokenizer(Gpt1Parts parts);

// Whether a tokenizer.json is one whose words end in </w>.
bool is_gpt1_json(const nlohmann::json& root);
// Its parts. Throws Error, naming what it is, for anything that would change ids and is not supported.
Gpt1Parts read_gpt1_json(const nlohmann::json& root, const std::string& name);
// The reverse.
std::string gpt1_json(const Gpt1Parts& parts);

// vocab.json and merges.txt as such a tokenizer.json.
nlohmann::json gpt1_json_of_vocab_and_merges(nlohmann::json vocab, nlohmann::json merges);

// The words of a text as transformers' GPT-1 tokenizer sees them: control characters dropped, white space to
// blanks, Han characters and punctuation alone, decomposed without accents, in lower case. Bytes that belong
// to no valid character are dropped like U+FFFD. Source: BertNormalizer and BertPreTokenizer of Hugging Face
// tokenizers.
std::vector<std::u32string> gpt1_words(std::string_view text);

// The text before it is cut into words, with blanks around Han characters.
std::string gpt1_normalized(std::string_view text);

// What the pre-tokenizers of Hugging Face call punctuation: all of ASCII's, and categories P* of an old
// Unicode.
bool is_gpt1_punctuation(char32_t code);

}  // namespace gpt::detail
