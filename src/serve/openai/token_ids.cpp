#include "serve/openai/token_ids.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "serve/api_error.h"

namespace gpt::serve {
namespace {

using nlohmann::json;

TextInput text_input(const std::string& text, const std::string& param, const ServedModel& model,
                     const TextReading& reading, Call& call) {
  try {
    return {text, text_ids(text, model, reading, call)};
  } catch (const ApiError& error) {
    throw ApiError(error.status(), error.what(), param);
  } catch (const Error& error) {
    fail_field(param, "{}", error.what());
  }
}

TextInput ids_input(const json& list, const std::string& param, const ServedModel& model) {
  TextInput input{"", read_ids(list, param, model.config().vocab_size)};
  if (input.ids.empty()) fail_field(param, "expected at least one token id, found none");
  return input;
}

}  // namespace

std::vector<int32_t> read_ids(const json& list, const std::string& param, int64_t vocab_size) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const json& id : list) {
    const bool fits = id.is_number_integer() && id >= 0 && id < vocab_size;
    if (!fits)
      fail_field(param, "expected token ids from 0 to {}, found {}", vocab_size - 1,
                 id.is_number() ? id.dump() : std::string(json_kind(id)));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

TextReading read_text_reading(const Fields& fields) {
  return {.bos = fields.boolean("add_special_tokens").value_or(true),
          .special = fields.boolean("parse_special").value_or(false)};
}

std::vector<int32_t> text_ids(const std::string& text, const ServedModel& model, const TextReading& reading,
                              Call& call) {
  const Tokenizer* tokenizer = model.tokenizer_if_any();
  if (!text.empty() && tokenizer == nullptr) model.tokenizer();  // throws with the reason
  std::vector<int32_t> ids = prompt_ids(text, tokenizer, model.config(), !reading.bos, reading.special);
  for (const std::string& warning :
       prompt_warnings(text, ids, tokenizer, reading.special, "\"parse_special\": true"))
    call.add_warning(warning);
  return ids;
}

std::vector<TextInput> read_inputs(const json& value, const std::string& param, const ServedModel& model,
                                   const TextReading& reading, int64_t most, Call& call) {
  if (value.is_string()) return {text_input(value, param, model, reading, call)};
  if (!value.is_array() || value.empty())
    fail_field(param,
               "expected a string, a list of strings, a list of token ids or a list of these, found {}",
               value.empty() ? "nothing" : json_kind(value));
  if (value.front().is_number()) return {ids_input(value, param, model)};
  if (std::ssize(value) > most) fail_field(param, "expected at most {} inputs, found {}", most, value.size());
  std::vector<TextInput> inputs;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string place = fmt::format("{}.{}", param, i);
    if (value[i].is_string()) {
      inputs.push_back(text_input(value[i], place, model, reading, call));
    } else if (value[i].is_array()) {
      inputs.push_back(ids_input(value[i], place, model));
    } else {
      fail_field(place, "expected a string or a list of token ids, found {}", json_kind(value[i]));
    }
  }
  return inputs;
}

}  // namespace gpt::serve
