// config.json, as it is written.

#include <cmath>

#include <nlohmann/json.hpp>

#include "model/json_value.h"
#include "model/model_files.h"

namespace gpt {
namespace {

using nlohmann::json;

bool common_hf(const ModelConfig& c) {
  return c.final_norm && c.norm_position == NormPosition::pre && !c.head_bias;
}

bool is_gpt(const ModelConfig& c) {
  return c.norm == NormKind::layer && c.has_norm_bias() && !c.embd_norm && !c.qk_norm &&
         c.position == Position::learned && c.act != Act::swiglu && c.qkv_bias && c.out_bias && c.mlp_bias &&
         !c.head_bias && c.logit_softcap == 0 && c.n_kv_head == c.n_head && c.q_dim() == c.n_embd &&
         c.sliding_window == 0;
}

bool is_gpt2(const ModelConfig& c) {
  return is_gpt(c) && common_hf(c);
}

bool is_gpt1(const ModelConfig& c) {
  return is_gpt(c) && c.norm_position == NormPosition::post && !c.final_norm && c.tie_embeddings &&
         c.d_ff == 4 * c.n_embd && (c.act == Act::gelu_tanh || c.act == Act::relu);
}

bool is_rotary(const ModelConfig& c) {
  return c.norm == NormKind::rms && common_hf(c) && c.position == Position::rope &&
         c.rope_layout == RopeLayout::halves && c.rope_dtype == RopeDType::fp32;
}

// Llama and those that differ from it in biases and window alone.
bool is_llama_like(const ModelConfig& c) {
  return is_rotary(c) && c.norm_affine && !c.embd_norm && !c.qk_norm && c.rope_sign == 1 &&
         c.act == Act::swiglu && c.logit_softcap == 0;
}

// transformers' Llama, unlike its Mistral, wants a width that is a multiple of its heads.
bool has_even_heads(const ModelConfig& c) {
  return c.n_embd % c.n_head == 0;
}

bool is_llama(const ModelConfig& c) {
  return is_llama_like(c) && c.qkv_bias == c.out_bias && c.sliding_window == 0 && has_even_heads(c);
}

bool is_qwen2(const ModelConfig& c) {
  return is_llama_like(c) && c.qkv_bias && !c.out_bias && !c.mlp_bias;
}

bool is_mistral(const ModelConfig& c) {
  return is_llama_like(c) && !c.qkv_bias && !c.out_bias && !c.mlp_bias &&
         (c.sliding_window > 0 || !has_even_heads(c));
}

bool is_nanochat(const ModelConfig& c) {
  return is_rotary(c) && c.qkv_bias == c.out_bias && c.sliding_window == 0 && !c.norm_affine && c.embd_norm &&
         c.qk_norm && c.rope_sign == -1 && c.act != Act::swiglu && !c.mlp_bias &&
         c.rope_scaling.type == RopeScaling::Type::none;
}

// transformers' names: gelu_new is the tanh form, gelu the exact one (but see GPT-1).
std::string act_name(const ModelConfig& c, bool gpt1) {
  switch (c.act) {
    case Act::gelu_tanh:
      return gpt1 ? "gelu" : "gelu_new";
    case Act::gelu:
      return "gelu";
    case Act::relu:
      return "relu";
    case Act::relu2:
      return "relu2";
    case Act::swiglu:
      return "silu";
  }
  return "";
}

json gpt_config(const ModelConfig& c, bool gpt1) {
  json out = {{"vocab_size", c.vocab_size},
              {"n_positions", c.n_ctx},
              {"n_embd", c.n_embd},
              {"n_layer", c.n_layer},
              {"n_head", c.n_head},
              {"embd_pdrop", c.embd_dropout},
              {"attn_pdrop", c.attn_dropout},
              {"resid_pdrop", c.resid_dropout},
              {"layer_norm_epsilon", c.norm_eps},
              {"initializer_range", c.init_std},
              {"tie_word_embeddings", c.tie_embeddings}};
  out["architectures"] = {gpt1 ? "OpenAIGPTLMHeadModel" : "GPT2LMHeadModel"};
  out[gpt1 ? "afn" : "activation_function"] = act_name(c, gpt1);
  if (!gpt1) out["n_inner"] = c.d_ff;
  return out;
}

json rotary_config(const ModelConfig& c, const std::string& family) {
  json rope = to_json_value(c.rope_scaling);
  if (rope.is_null()) rope = {{"rope_type", "default"}};
  rope["rope_theta"] = c.rope_theta;
  json out = {{"vocab_size", c.vocab_size},
              {"hidden_size", c.n_embd},
              {"intermediate_size", c.d_ff},
              {"num_hidden_layers", c.n_layer},
              {"num_attention_heads", c.n_head},
              {"num_key_value_heads", c.n_kv_head},
              {"head_dim", c.head_dim},
              {"max_position_embeddings", c.n_ctx},
              {"rms_norm_eps", c.norm_eps},
              {"initializer_range", c.init_std},
              {"attention_dropout", c.attn_dropout},
              {"hidden_act", act_name(c, false)},
              {"rope_parameters", rope},
              {"tie_word_embeddings", c.tie_embeddings}};
  const json window = c.sliding_window > 0 ? json(c.sliding_window) : json(nullptr);
  if (family == "qwen2") {
    out["architectures"] = {"Qwen2ForCausalLM"};
    out.update(
        {{"use_sliding_window", c.sliding_window > 0}, {"sliding_window", window}, {"max_window_layers", 0}});
  } else if (family == "mistral") {
    out["architectures"] = {"MistralForCausalLM"};
    out["sliding_window"] = window;
  } else if (family == "nanochat") {
    out["architectures"] = {"NanoChatForCausalLM"};
    out["attention_bias"] = c.qkv_bias;
    out["final_logit_softcapping"] = c.logit_softcap > 0 ? json(c.logit_softcap) : json(nullptr);
  } else {
    out["architectures"] = {"LlamaForCausalLM"};
    out["attention_bias"] = c.qkv_bias;
    out["mlp_bias"] = c.mlp_bias;
  }
  return out;
}

// transformers' names.
std::string type_name(DType dtype) {
  if (dtype == DType::f16) return "float16";
  return dtype == DType::bf16 ? "bfloat16" : "float32";
}

}  // namespace

std::string export_family(const ModelConfig& c) {
  if (c.n_layer == 0) return "gpt.cpp";  // transformers' families have blocks
  if (is_gpt2(c)) return "gpt2";
  if (is_gpt1(c)) return "openai-gpt";
  if (is_llama(c)) return "llama";
  if (is_qwen2(c)) return "qwen2";
  if (is_mistral(c)) return "mistral";
  if (is_nanochat(c)) return "nanochat";
  return "gpt.cpp";
}

Naming export_naming(const ModelConfig& c) {
  const std::string family = export_family(c);
  if (family == "gpt2") return Naming::hf_gpt2;
  if (family == "openai-gpt") return Naming::hf_gpt1;
  if (family == "llama" || family == "qwen2" || family == "mistral") return Naming::hf_llama;
  if (family == "nanochat") return Naming::hf_nanochat;
  return Naming::own;
}

json export_config(const ModelConfig& c, DType dtype) {
  const std::string family = export_family(c);
  json out;
  if (family == "gpt2" || family == "openai-gpt") {
    out = gpt_config(c, family == "openai-gpt");
  } else if (family == "gpt.cpp") {
    out = model_keys_json(c);
  } else {
    out = rotary_config(c, family);
  }
  out["model_type"] = family;
  if (family != "gpt.cpp") {
    out["dtype"] = type_name(dtype);
    out["pad_token_id"] = nullptr;
  }
  out["bos_token_id"] = c.bos_token_id >= 0 ? json(c.bos_token_id) : json(nullptr);
  out["eos_token_id"] = nullptr;
  if (c.eos_token_ids.size() == 1) out["eos_token_id"] = c.eos_token_ids[0];
  if (c.eos_token_ids.size() > 1) out["eos_token_id"] = c.eos_token_ids;
  return out;
}

}  // namespace gpt
