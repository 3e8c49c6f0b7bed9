#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "serve/call.h"
#include "serve/json_request.h"
#include "serve/served_model.h"

namespace gpt::serve {

// The ids of a list in a request, each of the vocabulary. Throws ApiError that names the field.
std::vector<int32_t> read_ids(const nlohmann::json& list, const std::string& param, int64_t vocab_size);

// A text of a request and its ids.
struct TextInput {
  std::string text;  // as it was given, or what the ids say
  std::vector<int32_t> ids;
};
// How texts of a request become ids.
struct TextReading {
  bool bos = true;       // they begin as the tokenizer says that texts do
  bool special = false;  // the names of special tokens are these tokens
};
// Reads "add_special_tokens" and "parse_special".
TextReading read_text_reading(const Fields& fields);

// The ids of a text; the call's record gets the warnings about it.
std::vector<int32_t> text_ids(const std::string& text, const ServedModel& model, const TextReading& reading,
                              Call& call);
// What a field like "prompt" or "input" means: a string, a list of strings, of ids, or of lists of ids.
// Throws ApiError for everything else, and for more than `most` of them.
std::vector<TextInput> read_inputs(const nlohmann::json& value, const std::string& param,
                                   const ServedModel& model, const TextReading& reading, int64_t most,
                                   Call& call);

}  // namespace gpt::serve
