#include "convert/format_limits.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "model/families/family.h"
#include "model/model_files.h"
#include "text/vocab_data.h"

namespace gpt {
namespace {

using nlohmann::json;

// A config key whose value differs from the value that a format requires.
struct Misfit {
  std::string key;
  json needed, found;
};

std::string plain(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Compares config keys with the values that a format needs. Stores the first difference.
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

// For each setting that the format cannot store, requires the value of the family.
void need_switches(Needs& needs, const Family& family, const ModelConfig& c) {
  const json needed = model_keys_json(family_config(family));
  const auto same = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      needs.is(key, needed[key]);
  };
  if (c.n_layer == 0) needs.is("n_layer", 1);  // other programs do not support models without layers
  same({"position", "norm", "act"});
  if (c.position == Position::rope) {
    same({"rope_sign", "rope_dtype"});
  } else {
    needs.is("n_kv_head", c.n_head).is("head_dim", c.n_embd / c.n_head);
  }
  same({"norm_position", "final_norm", "embd_norm", "qk_norm", "norm_affine", "logit_softcap", "head_bias"});
  if (c.sliding_window < c.n_ctx) needs.is("sliding_window", 0);
}

struct GgufChoice {
  const Family* family = nullptr;
  std::optional<Misfit> misfit;
};

// Returns true if the model has the same biases as the family. Programs other than llama.cpp expect these
// biases for the architecture.
bool has_its_biases(const Family& family, const ModelConfig& c) {
  const ModelConfig s = family_config(family);
  return s.qkv_bias == c.qkv_bias && s.out_bias == c.out_bias && s.mlp_bias == c.mlp_bias;
}

// Returns the first family that fits the model and has the same biases. If there is no such family, returns
// the first family that fits. If no family fits, returns the first family with the same kind of positions.
GgufChoice choose_gguf(const ModelConfig& c) {
  GgufChoice fitting, near;
  for (const Family* family : families()) {
    if (family->gguf.architecture == nullptr || family_config(*family).position != c.position) continue;
    Needs needs(c);
    need_switches(needs, *family, c);
    if (family->gguf.rope_layout == RopeLayout::halves && c.position == Position::rope)
      needs.is("rope_layout", "halves");
    if (!needs.misfit() && has_its_biases(*family, c)) return {family, {}};
    GgufChoice& choice = needs.misfit() ? near : fitting;
    if (choice.family == nullptr) choice = {family, needs.misfit()};
  }
  return fitting.family != nullptr ? fitting : near;
}

std::optional<Misfit> llama2c_misfit(const ModelConfig& c) {
  Needs needs(c);
  need_switches(needs, family::llama, c);
  needs.is("qkv_bias", false).is("out_bias", false).is("mlp_bias", false);
  needs.is("head_dim", c.n_embd / c.n_head).is("norm_eps", 1e-5).is("rope_theta", 10000.0);
  needs.is("rope_scaling", nullptr);
  return needs.misfit();
}

std::optional<Misfit> llmc_misfit(const ModelConfig& c) {
  Needs needs(c);
  need_switches(needs, family::gpt2, c);
  needs.is("tie_embeddings", true).is("d_ff", 4 * c.n_embd).is("norm_eps", 1e-5);
  return needs.misfit();
}

// Returns the command that trains a model with the required value.
std::string fitting_training(const Misfit& m) {
  std::string flag = m.key;
  std::ranges::replace(flag, '_', '-');
  return fmt::format("gpt train --{} {}", flag, plain(m.needed));
}

void require_none(const std::optional<Misfit>& m, const std::string& format, const std::string& what) {
  if (!m) return;
  fail_unsupported("cannot write this model as {}: {}: {} requires {}, found {}; train the model with {}",
                   format, m->key, what, plain(m->needed), plain(m->found), fitting_training(*m));
}

std::string short_reason(const Misfit& m, const std::string& what) {
  return fmt::format("{} requires `{}` {}", what, m.key, plain(m.needed));
}

}  // namespace

const Family& gguf_family(const ModelConfig& c) {
  const GgufChoice choice = choose_gguf(c);
  require_none(choice.misfit, "GGUF", std::string("the architecture ") + choice.family->gguf.architecture);
  return *choice.family;
}

void require_llama2c(const ModelConfig& c) {
  require_none(llama2c_misfit(c), "llama2.c", "the format");
}

void require_llmc(const ModelConfig& c) {
  require_none(llmc_misfit(c), "llm.c", "the format");
}

std::string export_limits(const ModelConfig& c, const Tokenizer* tokenizer) {
  std::string reasons;
  const auto add = [&](const std::string& reason) { reasons += (reasons.empty() ? "" : "; ") + reason; };
  if (const auto m = choose_gguf(c).misfit) {
    add(short_reason(*m, "GGUF"));
  } else if (tokenizer != nullptr) {
    try {
      tokenizer->vocab_data();
    } catch (const Error&) {
      add(fmt::format("GGUF does not support {} tokenizers", tokenizer->kind()));
    }
  }
  if (c.position == Position::rope) {
    if (const auto m = llama2c_misfit(c)) add(short_reason(*m, "llama2.c"));
  } else if (const auto m = llmc_misfit(c)) {
    add(short_reason(*m, "llm.c"));
  }
  if (reasons.empty()) return "";
  const bool known = !export_family(hf_config(c)).keys.empty();
  return fmt::format("note: gpt convert can write this model only as a folder {}; {}\n",
                     known ? "for transformers" : "that transformers cannot load", reasons);
}

}  // namespace gpt
