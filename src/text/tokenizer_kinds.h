#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"

// Shared by the files of this folder only.
namespace gpt::detail {

// The characters in order of their ids, distinct.
std::unique_ptr<Tokenizer> make_char_tokenizer_from_codes(std::vector<char32_t> codes);

// The same of a vocabulary of kind "rwkv" whose tokens are single characters; throws Error for any other.
std::unique_ptr<Tokenizer> char_tokenizer_of(const VocabData& data, const std::string& name);

// A tokenizer.json around a BPE model without merges, which splits text into single characters.
nlohmann::json json_without_merges(nlohmann::json vocab, nlohmann::json pre_tokenizer,
                                   nlohmann::json decoder);

// The ByteLevel that stands in a tokenizer.json as pre_tokenizer and as decoder.
nlohmann::json byte_level_json(bool use_regex);

// Parses JSON with limits on nesting and on the number of values; duplicate keys are an error.
nlohmann::json parse_limited_json(std::string_view text, const std::string& name);

// What make() gives; its errors, which tell of contradictions between parts, then name the file.
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
