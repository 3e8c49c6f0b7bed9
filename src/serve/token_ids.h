#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "serve/served_model.h"

namespace gpt::serve {

// The ids of a list in a request, each of the vocabulary. Throws ApiError that names the field.
std::vector<int32_t> read_ids(const nlohmann::json& list, const std::string& param, int64_t vocab_size);

// A text of a request and its ids.
struct TextInput {
  std::string text;  // as it was given, or what the ids say
  std::vector<int32_t> ids;
};
// What a field like "prompt" or "input" means: a string, a list of strings, of ids, or of lists of ids. bos:
// whether texts begin as the tokenizer says that texts do. Throws ApiError for everything else, and for more
// than `most` of them.
std::vector<TextInput> read_inputs(const nlohmann::json& value, const std::string& param,
                                   const ServedModel& model, bool bos, int64_t most);

}  // namespace gpt::serve
