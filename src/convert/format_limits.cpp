#include "convert/format_limits.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "text/vocab_data.h"

namespace gpt {
namespace {

using nlohmann::json;

// A key that has another value than a format needs.
struct Misfit {
  std::string key;
  json needed, found;
};

std::string plain(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Compares a config with what is needed, key by key in the order given; remembers the first difference.
class Needs {
 public:
  explicit Needs(const ModelConfig& config) : keys_(model_keys_json(config)) {}

  Needs& is(const char* key, json needed) {
    if (!misfit_ && keys_[key] != needed) misfit_ = {key, std::move(needed), keys_[key]};
    return *this;
  }
  const std::optional<Misfit>& misfit() const { return misfit_; }

 private:
  json keys_;
  std::optional<Misfit> misfit_;
};

// Of a model without blocks other programs make nothing.
void need_blocks(Needs& needs, const ModelConfig& c) {
  if (c.n_layer == 0) needs.is("n_layer", 1);
}

void need_plain_decoder(Needs& needs, const ModelConfig& c) {
  needs.is("norm_position", "pre").is("final_norm", true).is("embd_norm", false).is("qk_norm", false);
  needs.is("norm_affine", true).is("logit_softcap", 0.0).is("head_bias", false);
  if (c.sliding_window < c.n_ctx) needs.is("sliding_window", 0);
}

void need_llama(Needs& needs, const ModelConfig& c) {
  need_blocks(needs, c);
  needs.is("position", "rope").is("norm", "rms").is("act", "swiglu").is("rope_sign", 1);
  needs.is("rope_dtype", "fp32");
  need_plain_decoder(needs, c);
}

void need_gpt2(Needs& needs, const ModelConfig& c) {
  need_blocks(needs, c);
  needs.is("position", "learned").is("norm", "layer").is("act", "gelu_tanh");
  needs.is("n_kv_head", c.n_head).is("head_dim", c.n_embd / c.n_head);
  need_plain_decoder(needs, c);
}

std::optional<Misfit> gguf_misfit(const ModelConfig& c) {
  Needs needs(c);
  c.position == Position::rope ? need_llama(needs, c) : need_gpt2(needs, c);
  return needs.misfit();
}

std::optional<Misfit> llama2c_misfit(const ModelConfig& c) {
  Needs needs(c);
  need_llama(needs, c);
  needs.is("qkv_bias", false).is("out_bias", false).is("mlp_bias", false);
  needs.is("head_dim", c.n_embd / c.n_head).is("norm_eps", 1e-5).is("rope_theta", 10000.0);
  needs.is("rope_scaling", nullptr);
  return needs.misfit();
}

std::optional<Misfit> llmc_misfit(const ModelConfig& c) {
  Needs needs(c);
  need_gpt2(needs, c);
  needs.is("tie_embeddings", true).is("d_ff", 4 * c.n_embd).is("norm_eps", 1e-5);
  return needs.misfit();
}

std::string gguf_name(const ModelConfig& c) {
  return c.position == Position::rope ? "llama" : "gpt2";
}

std::string flag_of(const Misfit& m) {
  std::string name = m.key;
  std::replace(name.begin(), name.end(), '_', '-');
  return fmt::format("--{} {}", name, plain(m.needed));
}

void require_none(const std::optional<Misfit>& m, const std::string& format, const std::string& what) {
  if (!m) return;
  fail("cannot write this model as {}: {}: {} needs {}, found {}; a model trained with {} can be written",
       format, m->key, what, plain(m->needed), plain(m->found), flag_of(*m));
}

std::string short_reason(const Misfit& m, const std::string& what) {
  return fmt::format("{} needs {}", what, flag_of(m));
}

}  // namespace

std::string gguf_architecture(const ModelConfig& c) {
  const std::string name = gguf_name(c);
  require_none(gguf_misfit(c), "GGUF", "its architecture " + name);
  return name;
}

void require_llama2c(const ModelConfig& c) {
  require_none(llama2c_misfit(c), "llama2.c", "it");
}

void require_llmc(const ModelConfig& c) {
  require_none(llmc_misfit(c), "llm.c", "it");
}

std::string export_limits(const ModelConfig& c, const Tokenizer* tokenizer) {
  std::string reasons;
  const auto add = [&](const std::string& reason) { reasons += (reasons.empty() ? "" : "; ") + reason; };
  if (const auto m = gguf_misfit(c)) {
    add(short_reason(*m, "GGUF"));
  } else if (tokenizer != nullptr) {
    try {
      tokenizer->vocab_data();
    } catch (const Error&) {
      add(fmt::format("GGUF has no tokenizers of kind {}", tokenizer->kind()));
    }
  }
  if (c.position == Position::rope) {
    if (const auto m = llama2c_misfit(c)) add(short_reason(*m, "llama2.c"));
  } else if (const auto m = llmc_misfit(c)) {
    add(short_reason(*m, "llm.c"));
  }
  return reasons.empty() ? "" : "note: the model will go into a folder of transformers; " + reasons + "\n";
}

}  // namespace gpt
