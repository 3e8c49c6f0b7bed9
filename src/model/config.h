#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/layer_config.h"

namespace gpt {

enum class Position : uint8_t { learned, rope };
enum class Init : uint8_t { normal, torch, nanochat };
// Activation of the MLP. swiglu is silu(gate) * up (Shazeer 2020). All other activations have no gate.
enum class Act : uint8_t { gelu_tanh, gelu, relu, relu2, swiglu };

// All architecture options of the decoder. The field names are the keys of JSON files and, with dashes, the
// command-line flags. In a derived field, zero (or a negative dropout) means that `complete` computes the
// value.
struct ModelConfig {
  int64_t vocab_size = 0;
  int64_t n_ctx = 1024;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_kv_head = 0;  // 0: same as n_head
  int64_t n_embd = 768;
  int64_t head_dim = 0;  // 0: n_embd / n_head
  int64_t d_ff = 0;      // 0: 4 * n_embd

  NormKind norm = NormKind::layer;
  bool norm_affine = true;
  bool norm_bias = true;  // only with norm = layer and norm_affine
  double norm_eps = 1e-5;
  NormPosition norm_position = NormPosition::pre;
  bool embd_norm = false;
  bool final_norm = true;
  bool qk_norm = false;

  Position position = Position::learned;
  double rope_theta = 10000;
  int64_t rope_sign = 1;
  RopeLayout rope_layout = RopeLayout::halves;
  RopeScaling rope_scaling;
  RopeDType rope_dtype = RopeDType::fp32;
  int64_t sliding_window = 0;  // number of keys that a query sees, including its own; 0: all earlier keys

  Act act = Act::gelu_tanh;
  bool qkv_bias = true;
  bool out_bias = true;
  bool mlp_bias = true;
  bool head_bias = false;
  bool tie_embeddings = true;
  double logit_softcap = 0;

  double dropout = -1;  // default for the three values below
  double embd_dropout = -1;
  double attn_dropout = -1;
  double resid_dropout = -1;

  Init init = Init::normal;
  double init_std = 0.02;
  bool residual_init_scale = false;

  // Id of the token that starts a text (-1: none), and ids of the tokens that end a text.
  int64_t bos_token_id = -1;
  std::vector<int64_t> eos_token_ids;

  // Configs of all layers, for families whose layers differ. Empty: all layers follow the keys above.
  std::vector<LayerConfig> layers;
  // Index of the layer after which the residual stream is saved. A learned scalar times the saved stream is
  // subtracted before the final norm (nanochat's backout). -1: none.
  int64_t middle_layer = -1;

  bool is_gated() const { return act == Act::swiglu; }
  bool has_norm_bias() const { return norm == NormKind::layer && norm_affine && norm_bias; }
  int64_t q_dim() const { return n_head * head_dim; }
  int64_t kv_dim() const { return n_kv_head * head_dim; }
  int64_t qkv_dim() const { return q_dim() + 2 * kv_dim(); }

  bool operator==(const ModelConfig&) const = default;
};

// Computes the derived fields and validates the config. Throws Error naming the key, the value and the
// expected value. vocab_size may still be 0 if `vocab_known` is false, because the tokenizer determines it
// later.
void complete(ModelConfig& config, bool vocab_known = true);

// Returns the configs of all layers of a completed config, in order.
std::vector<LayerConfig> layer_configs(const ModelConfig& config);
// Returns the layer config that follows from the keys of a model config.
LayerConfig uniform_layer(const ModelConfig& config);
// Returns the rotary settings of a model config, even if the model does not use rotary positions.
RopeConfig rope_of(const ModelConfig& config);

// Calls visit(name, field, group, help) for every key of ModelConfig, in the order of the documentation.
// Config is ModelConfig or const ModelConfig.
template <class Config, class Visit>
void visit_model_keys(Config& c, Visit&& visit) {
  visit("vocab_size", c.vocab_size, "shape", "number of token ids (from the tokenizer)");
  visit("n_ctx", c.n_ctx, "shape", "context length in tokens");
  visit("n_layer", c.n_layer, "shape", "number of blocks; 0: head on embedding");
  visit("n_head", c.n_head, "shape", "query heads");
  visit("n_kv_head", c.n_kv_head, "shape", "key/value heads (n_head)");
  visit("n_embd", c.n_embd, "shape", "width of the residual stream");
  visit("head_dim", c.head_dim, "shape", "width of a head (n_embd / n_head)");
  visit("d_ff", c.d_ff, "shape", "width of the MLP (4 x n_embd)");
  visit("norm", c.norm, "norm", "layer or rms");
  visit("norm_affine", c.norm_affine, "norm", "norms have a gain");
  visit("norm_bias", c.norm_bias, "norm", "layer norms have a bias");
  visit("norm_eps", c.norm_eps, "norm", "added to the variance");
  visit("norm_position", c.norm_position, "norm", "pre or post");
  visit("embd_norm", c.embd_norm, "norm", "norm after the embedding");
  visit("final_norm", c.final_norm, "norm", "norm before the head");
  visit("qk_norm", c.qk_norm, "norm", "RMS norm of queries and keys");
  visit("position", c.position, "position", "learned or rope");
  visit("rope_theta", c.rope_theta, "position", "base of the rotary frequencies");
  visit("rope_sign", c.rope_sign, "position", "+1 Llama, -1 nanochat");
  visit("rope_layout", c.rope_layout, "position", "halves or interleaved");
  visit("rope_scaling", c.rope_scaling, "position", "stretching of rotary frequencies (JSON object)");
  visit("rope_dtype", c.rope_dtype, "position", "cos and sin as fp32, or rounded to bf16 as in nanochat");
  visit("sliding_window", c.sliding_window, "position", "keys that a token sees, its own included; 0: all");
  visit("act", c.act, "layers", "gelu_tanh, gelu, relu, relu2 or swiglu");
  visit("qkv_bias", c.qkv_bias, "layers", "bias of the q, k, v projections");
  visit("out_bias", c.out_bias, "layers", "bias of the attention output projection");
  visit("mlp_bias", c.mlp_bias, "layers", "biases of the MLP");
  visit("head_bias", c.head_bias, "layers", "bias of the output head");
  visit("tie_embeddings", c.tie_embeddings, "layers", "head and token embedding share their matrix");
  visit("logit_softcap", c.logit_softcap, "layers", "logits become cap*tanh(logits/cap); 0: off");
  visit("dropout", c.dropout, "dropout", "sets the three below");
  visit("embd_dropout", c.embd_dropout, "dropout", "after the embedding");
  visit("attn_dropout", c.attn_dropout, "dropout", "on attention weights");
  visit("resid_dropout", c.resid_dropout, "dropout", "after each sub-layer");
  visit("init", c.init, "init", "normal, torch or nanochat");
  visit("init_std", c.init_std, "init", "standard deviation of init = normal");
  visit("residual_init_scale", c.residual_init_scale, "init",
        "residual outputs start 1/sqrt(2 n_layer) smaller");
}

// Reads the model keys of a JSON object into the config. Translates key names and values of other projects
// first (config_alias.h). Returns the unknown keys.
std::vector<std::string> read_model_keys(const nlohmann::json& object, ModelConfig& config);
nlohmann::json model_keys_json(const ModelConfig& config);
// Like model_keys_json, but without dropouts that are not set (-1).
nlohmann::json given_model_keys_json(const ModelConfig& config);

// Returns the names of all model keys.
std::vector<std::string> model_key_names();

}  // namespace gpt
