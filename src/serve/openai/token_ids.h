#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "serve/call.h"
#include "serve/models/served_model.h"
#include "serve/openai/json_request.h"

namespace gpt::serve {

// Returns the ids of a list in a request. Throws ApiError that names the field if an id is outside the
// vocabulary.
std::vector<int32_t> read_ids(const nlohmann::json& list, const std::string& param, int64_t vocab_size);

// A text in a request and its ids.
struct TextInput {
  std::string text;  // the text as given; "" if the request contains ids
  std::vector<int32_t> ids;
};
// Options for encoding the texts of a request.
struct TextReading {
  bool bos = true;       // add BOS if the tokenizer's configuration requires it
  bool special = false;  // encode the names of special tokens as these tokens
};
// Reads "add_special_tokens" and "parse_special".
TextReading read_text_reading(const Fields& fields);

// Returns the ids of a text. Warnings about the text are added to the call's record.
std::vector<int32_t> text_ids(const std::string& text, const ServedModel& model, const TextReading& reading,
                              Call& call);
// Parses a field such as "prompt" or "input": a string, a list of strings, a list of ids, or a list of lists
// of ids. Throws ApiError for other values and for more than `most` entries.
std::vector<TextInput> read_inputs(const nlohmann::json& value, const std::string& param,
                                   const ServedModel& model, const TextReading& reading, int64_t most,
                                   Call& call);

}  // namespace gpt::serve
