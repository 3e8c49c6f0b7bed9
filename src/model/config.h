#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/key.h"
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
  int64_t sliding_window = 0;  // maximum keys per query, including its own; 0: all earlier keys

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

  // The config of every layer, if the layers of the model differ. If this list is empty, all layers have the
  // config that the fields above specify.
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
// Returns the config that all layers have if `layers` is empty.
LayerConfig uniform_layer(const ModelConfig& config);
// Returns the rotary settings of a model config, even if the model does not use rotary positions.
RopeConfig rope_of(const ModelConfig& config);

// These upper bounds are far above the dimensions of any real model, but low enough that products of
// dimensions do not overflow.
inline constexpr int64_t kMaxDimension = int64_t{1} << 24;
inline constexpr int64_t kMaxLayers = 10000;

// Visits the keys of a ModelConfig in the order of the documentation: visit(key, field). Config is
// ModelConfig or const ModelConfig.
template <class Config, class Visit>
// NOLINTNEXTLINE(readability-function-size): a table of definitions
void visit_model_keys(Config& c, Visit&& visit) {
  constexpr auto kMax = static_cast<double>(kMaxDimension);
  visit(Key{.name = "vocab_size",
            .group = "shape",
            .help = "Number of token ids",
            .unset = "from the tokenizer",
            .min = 0,
            .max = kMax},
        c.vocab_size);
  visit(Key{.name = "n_ctx",
            .group = "shape",
            .help = "Context length in tokens",
            .min = 1,
            .max = kMax,
            .aliases = "ctx_size|seq_len|ctx|context|ctx_len|max_model_len|-c",
            .is_common = true},
        c.n_ctx);
  visit(Key{.name = "n_layer",
            .group = "shape",
            .help = "Number of layers. 0 connects the embedding directly to the head",
            .min = 0,
            .max = kMaxLayers,
            .aliases = "num_layers|layers",
            .is_common = true},
        c.n_layer);
  visit(Key{.name = "n_head",
            .group = "shape",
            .help = "Number of query heads",
            .min = 1,
            .max = 65536,
            .aliases = "num_heads|heads",
            .is_common = true},
        c.n_head);
  visit(Key{.name = "n_kv_head",
            .group = "shape",
            .help = "Number of key/value heads, a divisor of n_head",
            .unset = "n_head",
            .min = 0,
            .max = 65536},
        c.n_kv_head);
  visit(Key{.name = "n_embd",
            .group = "shape",
            .help = "Width of the residual stream",
            .min = 1,
            .max = 1 << 20,
            .aliases = "n_embed",
            .is_common = true},
        c.n_embd);
  visit(Key{.name = "head_dim",
            .group = "shape",
            .help = "Width of a head",
            .unset = "n_embd / n_head",
            .min = 0,
            .max = 4096},
        c.head_dim);
  visit(Key{.name = "d_ff",
            .group = "shape",
            .help = "Width of the MLP's hidden layer",
            .unset = "4 x n_embd",
            .min = 0,
            .max = 1 << 22},
        c.d_ff);
  visit(Key{.name = "norm", .group = "norm", .help = "Type of normalization: LayerNorm or RMSNorm"}, c.norm);
  visit(Key{.name = "norm_affine", .group = "norm", .help = "Use a learned gain in the norms"},
        c.norm_affine);
  visit(Key{.name = "norm_bias", .group = "norm", .help = "Use a learned bias in LayerNorm"}, c.norm_bias);
  visit(Key{.name = "norm_eps", .group = "norm", .help = "Epsilon added to the variance", .min = 0, .max = 1},
        c.norm_eps);
  visit(Key{.name = "norm_position",
            .group = "norm",
            .help = "Place of the norm: before or after each sub-layer"},
        c.norm_position);
  visit(Key{.name = "embd_norm", .group = "norm", .help = "Normalize the token embeddings"}, c.embd_norm);
  visit(Key{.name = "final_norm", .group = "norm", .help = "Normalize before the output head"}, c.final_norm);
  visit(Key{.name = "qk_norm", .group = "norm", .help = "Apply RMSNorm to queries and keys"}, c.qk_norm);
  visit(Key{.name = "position", .group = "position", .help = "Type of position encoding"}, c.position);
  visit(Key{.name = "rope_theta",
            .group = "position",
            .help = "Base of the rotary frequencies",
            .min = 1e-3,
            .max = 1e12},
        c.rope_theta);
  visit(Key{.name = "rope_sign",
            .group = "position",
            .help = "Direction of rotation: 1 as in Llama, -1 as in nanochat",
            .min = -1,
            .max = 1},
        c.rope_sign);
  visit(Key{.name = "rope_layout", .group = "position", .help = "Layout of rotated pairs within a head"},
        c.rope_layout);
  visit(Key{.name = "rope_scaling",
            .group = "position",
            .help = "Scaling of rotary frequencies, as a JSON object",
            .value = "JSON"},
        c.rope_scaling);
  visit(Key{.name = "rope_dtype",
            .group = "position",
            .help = "Data type of the cosine and sine tables; nanochat rounds them to bf16"},
        c.rope_dtype);
  visit(Key{.name = "sliding_window",
            .group = "position",
            .help = "Number of keys that a token attends to, including its own. 0: all earlier keys",
            .min = 0,
            .max = kMax},
        c.sliding_window);
  visit(Key{.name = "act", .group = "layers", .help = "Activation of the MLP"}, c.act);
  visit(Key{.name = "qkv_bias", .group = "layers", .help = "Use biases in the q, k and v projections"},
        c.qkv_bias);
  visit(
      Key{.name = "out_bias", .group = "layers", .help = "Use a bias in the output projection of attention"},
      c.out_bias);
  visit(Key{.name = "mlp_bias", .group = "layers", .help = "Use biases in the MLP"}, c.mlp_bias);
  visit(Key{.name = "head_bias", .group = "layers", .help = "Use a bias in the output head"}, c.head_bias);
  visit(Key{.name = "tie_embeddings",
            .group = "layers",
            .help = "Share one matrix between token embedding and output head"},
        c.tie_embeddings);
  visit(Key{.name = "logit_softcap",
            .group = "layers",
            .help = "Cap for logits, applied as cap * tanh(logits / cap). 0: off",
            .min = 0,
            .max = 1e6},
        c.logit_softcap);
  visit(Key{.name = "dropout",
            .group = "dropout",
            .help = "Sets the three dropout rates below",
            .unset = "0",
            .min = 0,
            .max = 1},
        c.dropout);
  visit(Key{.name = "embd_dropout",
            .group = "dropout",
            .help = "Dropout rate after the embedding",
            .unset = "dropout",
            .min = 0,
            .max = 1},
        c.embd_dropout);
  visit(Key{.name = "attn_dropout",
            .group = "dropout",
            .help = "Dropout rate of the attention weights",
            .unset = "dropout",
            .min = 0,
            .max = 1},
        c.attn_dropout);
  visit(Key{.name = "resid_dropout",
            .group = "dropout",
            .help = "Dropout rate after each sub-layer",
            .unset = "dropout",
            .min = 0,
            .max = 1},
        c.resid_dropout);
  visit(Key{.name = "init", .group = "init", .help = "Initialization of the weights"}, c.init);
  visit(Key{.name = "init_std",
            .group = "init",
            .help = "Standard deviation of the normal initialization",
            .min = 0,
            .max = 100},
        c.init_std);
  visit(Key{.name = "residual_init_scale",
            .group = "init",
            .help = "Scale the initial weights of residual outputs by 1 / sqrt(2 n_layer)"},
        c.residual_init_scale);
}

// Reads the model keys of a JSON object into the config. Translates key names and values of other projects
// first (config_alias.h). Returns the unknown keys.
std::vector<std::string> read_model_keys(const nlohmann::json& object, ModelConfig& config);
nlohmann::json model_keys_json(const ModelConfig& config);
// Like model_keys_json, but without dropout rates that are not set (-1).
nlohmann::json given_model_keys_json(const ModelConfig& config);

// Returns the names of all model keys.
std::vector<std::string> model_key_names();

}  // namespace gpt
