#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/tokenizer.h"

namespace gpt::detail {

// The parts of GPT-1's BPE, which merges the characters of words. The last character of a word has the suffix
// </w>.
struct Gpt1Parts {
  std::vector<std::string> tokens;  // by id; empty for an unused id
  std::vector<Bpe::Merge> merges;
  std::vector<AddedToken> added;
  int64_t unk = -1;  // id for characters outside the vocabulary; -1: such characters are an error
};

// Throws Error if the parts contradict each other.
std::unique_ptr<Tokenizer> make_gpt1_tokenizer(Gpt1Parts parts);

// Returns true if the words in a tokenizer.json end with </w>.
bool is_gpt1_json(const nlohmann::json& root);
// Reads the parts of a GPT-1 tokenizer.json. Throws Error with the name of the setting for unsupported
// settings that would change ids.
Gpt1Parts read_gpt1_json(const nlohmann::json& root, const std::string& name);
// Writes the parts as a GPT-1 tokenizer.json.
std::string gpt1_json(const Gpt1Parts& parts);

// Converts vocab.json and merges.txt to a GPT-1 tokenizer.json.
nlohmann::json gpt1_json_of_vocab_and_merges(nlohmann::json vocab, nlohmann::json merges);

// Splits a text into words like the GPT-1 tokenizer of transformers. Removes control characters and accents,
// and converts letters to lower case. White space becomes spaces. Han characters and punctuation characters
// become separate words. Invalid UTF-8 bytes are removed, like U+FFFD. Source: BertNormalizer and
// BertPreTokenizer of Hugging Face tokenizers.
std::vector<std::u32string> gpt1_words(std::string_view text);

// Returns the normalized text before it is split into words, with spaces around Han characters.
std::string gpt1_normalized(std::string_view text);

// Returns true for punctuation as defined by the pre-tokenizers of Hugging Face: all ASCII punctuation, and
// the categories P* of an old version of Unicode.
bool is_gpt1_punctuation(char32_t code);

}  // namespace gpt::detail
