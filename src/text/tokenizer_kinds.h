#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

// The functions in this file are internal to the folder.
namespace gpt::detail {

// Creates a char tokenizer. `codes` are distinct characters in the order of their ids.
std::unique_ptr<Tokenizer> make_char_tokenizer_from_codes(std::vector<char32_t> codes);

// Creates a char tokenizer from a vocabulary of kind "rwkv" whose tokens are single characters. Throws Error
// for other vocabularies.
std::unique_ptr<Tokenizer> char_tokenizer_of(const VocabData& data, const std::string& name);

// Returns a tokenizer.json with a BPE model without merges, which splits text into single characters.
nlohmann::json json_without_merges(nlohmann::json vocab, nlohmann::json pre_tokenizer,
                                   nlohmann::json decoder);

// Returns the ByteLevel object that a tokenizer.json has as pre_tokenizer and as decoder.
nlohmann::json byte_level_json(bool use_regex);

// Parses JSON with limits on the nesting depth and on the number of values. Duplicate keys are an error.
nlohmann::json parse_limited_json(std::string_view text, const std::string& name);

// Returns the result of make(). If make() throws an Error because the parts of a tokenizer contradict each
// other, the file name is added to the message.
template <class Make>
auto naming_file(const std::string& name, Make&& make) {
  try {
    return make();
  } catch (const Error& error) {
    fail_because(error, "cannot read {}: {}", name, error.what());
  }
}

[[noreturn]] void fail_token_id(int64_t id, int64_t vocab_size);

}  // namespace gpt::detail
