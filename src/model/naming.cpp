#include "model/naming.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "model/base_prefix.h"

namespace gpt {
namespace {

struct Name {
  Role role;
  const char* pattern;  // {} is the layer
};

// Several roles with one name are parts of one fused tensor, in the order of this table.
struct Scheme {
  std::vector<Name> names;
  bool transposed_blocks = false;  // transformers' Conv1D: block matrices are [in,out]
};

// Appends ".weight" and ".bias" (or other endings) for a linear layer or a norm.
void linear(Scheme& s, Role weight, Role bias, const char* w, const char* b) {
  s.names.push_back({weight, w});
  s.names.push_back({bias, b});
}

// Queries, keys and values one below the other in one matrix.
void fused_qkv(Scheme& s, const char* w, const char* b) {
  linear(s, Role::q_weight, Role::q_bias, w, b);
  linear(s, Role::k_weight, Role::k_bias, w, b);
  linear(s, Role::v_weight, Role::v_bias, w, b);
}

Scheme make_own() {
  Scheme s;
  s.names = {{Role::wte, "wte.weight"}, {Role::wpe, "wpe.weight"}};
  linear(s, Role::norm1_gain, Role::norm1_bias, "blocks.{}.norm1.weight", "blocks.{}.norm1.bias");
  linear(s, Role::q_weight, Role::q_bias, "blocks.{}.attn.q.weight", "blocks.{}.attn.q.bias");
  linear(s, Role::k_weight, Role::k_bias, "blocks.{}.attn.k.weight", "blocks.{}.attn.k.bias");
  linear(s, Role::v_weight, Role::v_bias, "blocks.{}.attn.v.weight", "blocks.{}.attn.v.bias");
  linear(s, Role::out_weight, Role::out_bias, "blocks.{}.attn.out.weight", "blocks.{}.attn.out.bias");
  linear(s, Role::norm2_gain, Role::norm2_bias, "blocks.{}.norm2.weight", "blocks.{}.norm2.bias");
  linear(s, Role::gate_weight, Role::gate_bias, "blocks.{}.mlp.gate.weight", "blocks.{}.mlp.gate.bias");
  linear(s, Role::fc_weight, Role::fc_bias, "blocks.{}.mlp.fc.weight", "blocks.{}.mlp.fc.bias");
  linear(s, Role::proj_weight, Role::proj_bias, "blocks.{}.mlp.proj.weight", "blocks.{}.mlp.proj.bias");
  linear(s, Role::final_gain, Role::final_bias, "final_norm.weight", "final_norm.bias");
  linear(s, Role::head_weight, Role::head_bias, "head.weight", "head.bias");
  return s;
}

Scheme make_hf_gpt(const char* wte, const char* wpe, bool transposed_blocks) {
  Scheme s;
  s.transposed_blocks = transposed_blocks;
  s.names = {{Role::wte, wte}, {Role::wpe, wpe}};
  linear(s, Role::norm1_gain, Role::norm1_bias, "transformer.h.{}.ln_1.weight", "transformer.h.{}.ln_1.bias");
  fused_qkv(s, "transformer.h.{}.attn.c_attn.weight", "transformer.h.{}.attn.c_attn.bias");
  linear(s, Role::out_weight, Role::out_bias, "transformer.h.{}.attn.c_proj.weight",
         "transformer.h.{}.attn.c_proj.bias");
  linear(s, Role::norm2_gain, Role::norm2_bias, "transformer.h.{}.ln_2.weight", "transformer.h.{}.ln_2.bias");
  linear(s, Role::fc_weight, Role::fc_bias, "transformer.h.{}.mlp.c_fc.weight",
         "transformer.h.{}.mlp.c_fc.bias");
  linear(s, Role::proj_weight, Role::proj_bias, "transformer.h.{}.mlp.c_proj.weight",
         "transformer.h.{}.mlp.c_proj.bias");
  linear(s, Role::final_gain, Role::final_bias, "transformer.ln_f.weight", "transformer.ln_f.bias");
  linear(s, Role::head_weight, Role::head_bias, "lm_head.weight", "lm_head.bias");
  return s;
}

Scheme make_hf_llama(bool gated) {
  Scheme s;
  s.names = {{Role::wte, "model.embed_tokens.weight"},
             {Role::norm1_gain, "model.layers.{}.input_layernorm.weight"},
             {Role::norm2_gain, "model.layers.{}.post_attention_layernorm.weight"},
             {Role::final_gain, "model.norm.weight"}};
  linear(s, Role::q_weight, Role::q_bias, "model.layers.{}.self_attn.q_proj.weight",
         "model.layers.{}.self_attn.q_proj.bias");
  linear(s, Role::k_weight, Role::k_bias, "model.layers.{}.self_attn.k_proj.weight",
         "model.layers.{}.self_attn.k_proj.bias");
  linear(s, Role::v_weight, Role::v_bias, "model.layers.{}.self_attn.v_proj.weight",
         "model.layers.{}.self_attn.v_proj.bias");
  linear(s, Role::out_weight, Role::out_bias, "model.layers.{}.self_attn.o_proj.weight",
         "model.layers.{}.self_attn.o_proj.bias");
  linear(s, Role::head_weight, Role::head_bias, "lm_head.weight", "lm_head.bias");
  if (gated) {
    linear(s, Role::gate_weight, Role::gate_bias, "model.layers.{}.mlp.gate_proj.weight",
           "model.layers.{}.mlp.gate_proj.bias");
    linear(s, Role::fc_weight, Role::fc_bias, "model.layers.{}.mlp.up_proj.weight",
           "model.layers.{}.mlp.up_proj.bias");
    linear(s, Role::proj_weight, Role::proj_bias, "model.layers.{}.mlp.down_proj.weight",
           "model.layers.{}.mlp.down_proj.bias");
  } else {
    linear(s, Role::fc_weight, Role::fc_bias, "model.layers.{}.mlp.fc1.weight",
           "model.layers.{}.mlp.fc1.bias");
    linear(s, Role::proj_weight, Role::proj_bias, "model.layers.{}.mlp.fc2.weight",
           "model.layers.{}.mlp.fc2.bias");
  }
  return s;
}

Scheme make_nanochat_doc() {
  Scheme s;
  s.names = {{Role::wte, "transformer.wte.weight"},
             {Role::q_weight, "transformer.h.{}.attn.c_q.weight"},
             {Role::k_weight, "transformer.h.{}.attn.c_k.weight"},
             {Role::v_weight, "transformer.h.{}.attn.c_v.weight"},
             {Role::out_weight, "transformer.h.{}.attn.c_proj.weight"},
             {Role::fc_weight, "transformer.h.{}.mlp.c_fc.weight"},
             {Role::proj_weight, "transformer.h.{}.mlp.c_proj.weight"},
             {Role::head_weight, "lm_head.weight"}};
  return s;
}

Scheme make_nanochat_notebook() {
  Scheme s;
  s.names = {{Role::wte, "wte.weight"},
             {Role::q_weight, "blocks.{}.attn.c_q.weight"},
             {Role::k_weight, "blocks.{}.attn.c_k.weight"},
             {Role::v_weight, "blocks.{}.attn.c_v.weight"},
             {Role::out_weight, "blocks.{}.attn.c_proj.weight"},
             {Role::fc_weight, "blocks.{}.mlp.c_fc.weight"},
             {Role::proj_weight, "blocks.{}.mlp.c_proj.weight"},
             {Role::head_weight, "lm_head.weight"}};
  return s;
}

Scheme make_gpt2_scratch() {
  Scheme s;
  s.names = {{Role::wte, "tok_emb.weight"}, {Role::wpe, "pos_emb.weight"}};
  linear(s, Role::q_weight, Role::q_bias, "trf_blocks.{}.att.W_query.weight",
         "trf_blocks.{}.att.W_query.bias");
  linear(s, Role::k_weight, Role::k_bias, "trf_blocks.{}.att.W_key.weight", "trf_blocks.{}.att.W_key.bias");
  linear(s, Role::v_weight, Role::v_bias, "trf_blocks.{}.att.W_value.weight",
         "trf_blocks.{}.att.W_value.bias");
  linear(s, Role::out_weight, Role::out_bias, "trf_blocks.{}.att.out_proj.weight",
         "trf_blocks.{}.att.out_proj.bias");
  linear(s, Role::fc_weight, Role::fc_bias, "trf_blocks.{}.ff.layers.0.weight",
         "trf_blocks.{}.ff.layers.0.bias");
  linear(s, Role::proj_weight, Role::proj_bias, "trf_blocks.{}.ff.layers.2.weight",
         "trf_blocks.{}.ff.layers.2.bias");
  linear(s, Role::norm1_gain, Role::norm1_bias, "trf_blocks.{}.norm1.scale", "trf_blocks.{}.norm1.shift");
  linear(s, Role::norm2_gain, Role::norm2_bias, "trf_blocks.{}.norm2.scale", "trf_blocks.{}.norm2.shift");
  linear(s, Role::final_gain, Role::final_bias, "final_norm.scale", "final_norm.shift");
  linear(s, Role::head_weight, Role::head_bias, "out_head.weight", "out_head.bias");
  return s;
}

Scheme make_gpt1_preln() {
  Scheme s;
  s.names = {{Role::wte, "embeddings.wte.weight"}, {Role::wpe, "embeddings.wpe.weight"}};
  linear(s, Role::norm1_gain, Role::norm1_bias, "blocks.{}.ln_1.gamma", "blocks.{}.ln_1.beta");
  fused_qkv(s, "blocks.{}.attn.c_attn.weight", "blocks.{}.attn.c_attn.bias");
  linear(s, Role::out_weight, Role::out_bias, "blocks.{}.attn.c_proj.weight", "blocks.{}.attn.c_proj.bias");
  linear(s, Role::norm2_gain, Role::norm2_bias, "blocks.{}.ln_2.gamma", "blocks.{}.ln_2.beta");
  linear(s, Role::fc_weight, Role::fc_bias, "blocks.{}.mlp.c_fc.weight", "blocks.{}.mlp.c_fc.bias");
  linear(s, Role::proj_weight, Role::proj_bias, "blocks.{}.mlp.c_proj.weight", "blocks.{}.mlp.c_proj.bias");
  linear(s, Role::final_gain, Role::final_bias, "ln_f.gamma", "ln_f.beta");
  linear(s, Role::head_weight, Role::head_bias, "lm_head.weight", "lm_head.bias");
  return s;
}

Scheme make_mini_gpt() {
  Scheme s;
  s.names = {{Role::wte, "token_embedding.weight"}, {Role::wpe, "position_embedding.weight"}};
  linear(s, Role::norm1_gain, Role::norm1_bias, "blocks.{}.ln1.weight", "blocks.{}.ln1.bias");
  fused_qkv(s, "blocks.{}.attn.qkv_proj.weight", "blocks.{}.attn.qkv_proj.bias");
  linear(s, Role::out_weight, Role::out_bias, "blocks.{}.attn.out_proj.weight",
         "blocks.{}.attn.out_proj.bias");
  linear(s, Role::norm2_gain, Role::norm2_bias, "blocks.{}.ln2.weight", "blocks.{}.ln2.bias");
  linear(s, Role::fc_weight, Role::fc_bias, "blocks.{}.ffn.fc1.weight", "blocks.{}.ffn.fc1.bias");
  linear(s, Role::proj_weight, Role::proj_bias, "blocks.{}.ffn.fc2.weight", "blocks.{}.ffn.fc2.bias");
  linear(s, Role::final_gain, Role::final_bias, "ln_final.weight", "ln_final.bias");
  linear(s, Role::head_weight, Role::head_bias, "output_proj.weight", "output_proj.bias");
  return s;
}

Scheme make_llama2c() {
  Scheme s;
  s.names = {{Role::wte, "tok_emb"},           {Role::norm1_gain, "rms_att.{}"}, {Role::q_weight, "wq.{}"},
             {Role::k_weight, "wk.{}"},        {Role::v_weight, "wv.{}"},        {Role::out_weight, "wo.{}"},
             {Role::norm2_gain, "rms_ffn.{}"}, {Role::gate_weight, "w1.{}"},     {Role::proj_weight, "w2.{}"},
             {Role::fc_weight, "w3.{}"},       {Role::final_gain, "rms_final"},  {Role::head_weight, "wcls"}};
  return s;
}

Scheme make_llmc() {
  Scheme s;
  s.names = {{Role::wte, "wte"}, {Role::wpe, "wpe"}};
  linear(s, Role::norm1_gain, Role::norm1_bias, "ln1w.{}", "ln1b.{}");
  fused_qkv(s, "qkvw.{}", "qkvb.{}");
  linear(s, Role::out_weight, Role::out_bias, "attprojw.{}", "attprojb.{}");
  linear(s, Role::norm2_gain, Role::norm2_bias, "ln2w.{}", "ln2b.{}");
  linear(s, Role::fc_weight, Role::fc_bias, "fcw.{}", "fcb.{}");
  linear(s, Role::proj_weight, Role::proj_bias, "fcprojw.{}", "fcprojb.{}");
  linear(s, Role::final_gain, Role::final_bias, "lnfw", "lnfb");
  return s;
}

Scheme make_gguf(bool fused) {
  Scheme s;
  s.names = {{Role::wte, "token_embd.weight"}, {Role::wpe, "position_embd.weight"}};
  linear(s, Role::norm1_gain, Role::norm1_bias, "blk.{}.attn_norm.weight", "blk.{}.attn_norm.bias");
  if (fused) {
    fused_qkv(s, "blk.{}.attn_qkv.weight", "blk.{}.attn_qkv.bias");
  } else {
    linear(s, Role::q_weight, Role::q_bias, "blk.{}.attn_q.weight", "blk.{}.attn_q.bias");
    linear(s, Role::k_weight, Role::k_bias, "blk.{}.attn_k.weight", "blk.{}.attn_k.bias");
    linear(s, Role::v_weight, Role::v_bias, "blk.{}.attn_v.weight", "blk.{}.attn_v.bias");
  }
  linear(s, Role::out_weight, Role::out_bias, "blk.{}.attn_output.weight", "blk.{}.attn_output.bias");
  linear(s, Role::norm2_gain, Role::norm2_bias, "blk.{}.ffn_norm.weight", "blk.{}.ffn_norm.bias");
  linear(s, Role::gate_weight, Role::gate_bias, "blk.{}.ffn_gate.weight", "blk.{}.ffn_gate.bias");
  linear(s, Role::fc_weight, Role::fc_bias, "blk.{}.ffn_up.weight", "blk.{}.ffn_up.bias");
  linear(s, Role::proj_weight, Role::proj_bias, "blk.{}.ffn_down.weight", "blk.{}.ffn_down.bias");
  linear(s, Role::final_gain, Role::final_bias, "output_norm.weight", "output_norm.bias");
  linear(s, Role::head_weight, Role::head_bias, "output.weight", "output.bias");
  return s;
}

const Scheme& scheme(Naming naming) {
  static const Scheme schemes[] = {
      make_own(),
      make_hf_gpt("transformer.wte.weight", "transformer.wpe.weight", true),
      make_hf_gpt("transformer.tokens_embed.weight", "transformer.positions_embed.weight", true),
      make_hf_llama(true),
      make_hf_llama(false),
      make_nanochat_notebook(),
      make_nanochat_doc(),
      make_gpt2_scratch(),
      make_gpt1_preln(),
      make_mini_gpt(),
      make_llama2c(),
      make_llmc(),
      make_hf_gpt("transformer.wte.weight", "transformer.wpe.weight", false),
      make_gguf(false),
      make_gguf(true),
  };
  return schemes[static_cast<size_t>(naming)];
}

const char* pattern_of(const Scheme& s, Role role) {
  const auto name =
      std::find_if(s.names.begin(), s.names.end(), [&](const Name& n) { return n.role == role; });
  return name == s.names.end() ? nullptr : name->pattern;
}

// The rows (elements of a bias) that a role has.
int64_t rows_of(const ModelConfig& c, Role role) {
  switch (role) {
    case Role::q_weight:
    case Role::q_bias:
      return c.q_dim();
    case Role::k_weight:
    case Role::v_weight:
    case Role::k_bias:
    case Role::v_bias:
      return c.kv_dim();
    default:
      return 0;
  }
}

}  // namespace

FilePlace file_place(Naming naming, const ModelConfig& c, const ParamSpec& spec) {
  const Scheme& s = scheme(naming);
  const char* pattern = pattern_of(s, spec.role);
  if (pattern == nullptr) return {};  // this kind of file has no place for it
  FilePlace place;
  place.tensor = fmt::format(fmt::runtime(pattern), spec.layer);
  place.file_shape = spec.shape;
  int64_t total = 0;
  for (const Name& name : s.names) {
    if (std::string_view(name.pattern) != pattern) continue;
    if (name.role == spec.role) place.first_row = total;
    total += rows_of(c, name.role);
  }
  if (total > spec.shape[0]) place.file_shape[0] = total;
  place.transposed = s.transposed_blocks && spec.layer >= 0 && spec.shape.size() == 2;
  if (place.transposed) std::swap(place.file_shape[0], place.file_shape[1]);
  return place;
}

std::optional<Naming> detect_naming(const ModelConfig& c, const ParamTable& table,
                                    const std::function<bool(const std::string&)>& has,
                                    bool& prefix_missing) {
  // One that all families have and two that tell them apart; without blocks all there is.
  std::vector<const ParamSpec*> telling = {&table[table.find(Role::wte)]};
  for (int id = 0; id < table.count(); ++id) {
    const ParamSpec& spec = table[id];
    const bool tells = spec.layer == 0 && (spec.role == Role::q_weight || spec.role == Role::fc_weight);
    if (tells || c.n_layer == 0) telling.push_back(&spec);
  }
  for (bool strip : {false, true}) {
    for (int i = 0; i <= static_cast<int>(Naming::llama2c); ++i) {
      const auto naming = static_cast<Naming>(i);
      const auto present = [&](const ParamSpec* spec) {
        const std::string name = file_place(naming, c, *spec).tensor;
        return has(strip ? without_base_prefix(name) : name);
      };
      if (std::all_of(telling.begin(), telling.end(), present)) {
        prefix_missing = strip;
        return naming;
      }
    }
  }
  return std::nullopt;
}

bool is_buffer_name(std::string_view name) {
  const auto ends_with = [&](std::string_view end) {
    return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
  };
  return name == "cos" || name == "sin" || ends_with(".cos") || ends_with(".sin") ||
         ends_with(".attn.mask") || ends_with(".att.mask") || ends_with(".attn.bias") ||
         ends_with(".attn.masked_bias") || ends_with("rotary_emb.inv_freq") || ends_with("position_ids") ||
         name.rfind("freq_cis_", 0) == 0 || name == "rope_freqs.weight";
}

std::string head_name(Naming naming) {
  const char* pattern = pattern_of(scheme(naming), Role::head_weight);
  return pattern == nullptr ? "" : pattern;
}

}  // namespace gpt
