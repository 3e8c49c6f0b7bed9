#include "train/init_model.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "convert/gguf_vocab.h"
#include "data/corpus.h"

namespace gpt {
namespace {

bool same_tokens(const Tokenizer& a, const Tokenizer& b) {
  if (a.vocab_size() != b.vocab_size()) return false;
  for (int32_t id = 0; id < a.vocab_size(); ++id) {
    if (a.token_bytes(id) != b.token_bytes(id)) return false;
  }
  return true;
}

}  // namespace

void require_shape(const ModelConfig& asked, const ModelConfig& model) {
  const nlohmann::json before = model_keys_json(model), now = model_keys_json(asked);
  for (const auto& [key, value] : before.items()) {
    const bool free =
        key.ends_with("dropout") || key == "init" || key == "init_std" || key == "residual_init_scale";
    if (free || !now.contains(key) || now[key] == value) continue;
    fail_usage(
        "config key \"{}\": the model of --init-from has {}, found {}; leave it out, or train a new model "
        "without --init-from",
        key, value.dump(), now[key].dump());
  }
}

void require_tokenizer(const std::string& name, const Tokenizer& model) {
  if (name == "char" && model.kind() == "char") return;  // those characters
  bool same = false;
  if (name != "char") {
    const auto asked = name.ends_with(".gguf") ? gguf_tokenizer(name) : open_tokenizer(name, {});
    same = same_tokens(*asked, model);
  }
  if (!same)
    fail_usage(
        "--tokenizer {}: the model of --init-from has another one ({}, {} tokens), which is kept; leave it "
        "out",
        name, model.kind(), model.vocab_size());
}

}  // namespace gpt
