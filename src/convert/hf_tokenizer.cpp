#include "convert/hf_tokenizer.h"

#include <map>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

using nlohmann::json;

// Returns the texts of the added tokens by id.
std::map<int64_t, std::string> added_texts(const Tokenizer& tokenizer) {
  const json root = json::parse(tokenizer.to_json());
  std::map<int64_t, std::string> texts;
  for (const json& token : root.value("added_tokens", json::array()))
    texts[token["id"].get<int64_t>()] = token["content"].get<std::string>();
  return texts;
}

}  // namespace

std::string hf_tokenizer_config(const Tokenizer& tokenizer, const ModelConfig& config,
                                const std::vector<std::pair<std::string, std::string>>& known) {
  const SpecialIds ids = tokenizer.special_ids();
  const std::map<int64_t, std::string> texts = added_texts(tokenizer);
  json out = {{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"model_max_length", config.n_ctx},
              {"clean_up_tokenization_spaces", false}};
  const auto add = [&](const char* name, std::initializer_list<int64_t> choices) {
    for (const int64_t id : choices) {
      if (out.contains(name)) return;
      if (const auto found = texts.find(id); found != texts.end()) out[name] = found->second;
    }
  };
  for (const auto& [name, text] : known)
    out[name] = text;
  const int64_t eos = config.eos_token_ids.empty() ? -1 : config.eos_token_ids.front();
  add("bos_token", {config.bos_token_id, ids.bos});
  add("eos_token", {eos, ids.eos});
  add("unk_token", {ids.unk});
  add("pad_token", {ids.pad, eos, ids.eos});
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace gpt
