#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/config.h"
#include "tensor/tensor.h"

namespace gpt {

// What a parameter is for; with the layer it identifies the parameter.
enum class Role : uint8_t {
  wte,
  wpe,
  norm1_gain,
  norm1_bias,
  q_weight,
  k_weight,
  v_weight,
  q_bias,
  k_bias,
  v_bias,
  out_weight,
  out_bias,
  norm2_gain,
  norm2_bias,
  gate_proj_weight,
  up_proj_weight,
  gate_proj_bias,
  up_proj_bias,
  down_proj_weight,
  down_proj_bias,
  final_gain,
  final_bias,
  head_weight,
  head_bias,
  q_norm_gain,
  k_norm_gain,
  input_scale,  // scalars of the residual stream (LayerConfig)
  x0_scale,
  attention_scale,
  mlp_scale,
  middle_scale,  // ModelConfig::middle_layer
  objective      // see model/objective.h
};

// The role of the bias of a matrix; `objective` if it has none.
Role bias_of(Role weight);

// The component that `gpt info` counts a parameter under.
enum class Component : uint8_t {
  token_embedding,
  position_embedding,
  attention,
  mlp,
  norm,
  final_norm,
  head,
  residual,
  objective
};
inline constexpr const char* kComponentLabels[] = {
    "token embedding", "position embedding", "attention", "MLP", "norms", "final norm", "head",
    "residual scales", "objective"};
inline const char* component_label(Component c) {
  return kComponentLabels[static_cast<size_t>(c)];
}

// How a parameter starts.
struct InitRule {
  enum class Kind : uint8_t { zeros, ones, normal, uniform };
  Kind kind = Kind::zeros;
  double scale = 0;  // standard deviation, or half the width of the interval
};

// One row of the single table behind allocation, initialisation, files and optimizer groups.
struct ParamSpec {
  std::string name;  // in files of our own: "blocks.0.attn.q.weight"
  Role role;
  int64_t layer;  // -1 outside the blocks
  Shape shape;    // matrices are [out,in]
  InitRule init;
  bool decay;                     // weight decay applies: 2 or more dimensions
  bool contiguous_with_previous;  // lies directly behind the previous one in memory, so that q, k, v are one
                                  // matrix
  Component component;
  bool is_lookup_table = false;  // rows are read by ids or positions, and no product reads it
  bool trainable = true;         // has a gradient and what an optimizer keeps
  int64_t expert = -1;           // of a layer's experts; -1: of no one of them

  int64_t size() const;
};

class ParamTable {
 public:
  // For a completed config; `more`: parameters behind the model's.
  explicit ParamTable(const ModelConfig& config, const std::vector<ParamSpec>& more = {});

  // Of these parameters, no model's.
  explicit ParamTable(std::vector<ParamSpec> specs);

  const std::vector<ParamSpec>& specs() const { return specs_; }
  const ParamSpec& operator[](int id) const { return specs_[static_cast<size_t>(id)]; }
  // To be said before memory for gradients is made.
  void set_trainable(int id, bool trainable) { specs_[static_cast<size_t>(id)].trainable = trainable; }
  int count() const { return static_cast<int>(specs_.size()); }
  // Those of the model itself, which its files hold, come first.
  int model_count() const { return model_count_; }
  // The id of a parameter, or -1 when this config has none.
  int find(Role role, int64_t layer = -1, int64_t expert = -1) const;
  int64_t total() const;

 private:
  void add(Role role, int64_t layer, std::string name, Shape shape, InitRule init, Component component,
           bool contiguous_with_previous = false);
  void add_embeddings(const ModelConfig& c);
  void add_norm(int64_t width, bool has_gain, bool has_bias, std::pair<Role, Role> roles, int64_t layer,
                const std::string& name, Component component);
  void add_block(const ModelConfig& c, const LayerConfig& l, int64_t layer);
  void add_scale(Role role, int64_t layer, const char* name, InitRule::Kind init);
  void add_attention(const ModelConfig& c, const LayerConfig& l, int64_t layer);
  void add_mlp(const ModelConfig& c, const LayerConfig& l, int64_t layer);
  std::vector<ParamSpec> specs_;
  int model_count_ = 0;
  std::map<std::tuple<Role, int64_t, int64_t>, int> index_;  // by role, layer, expert
};

}  // namespace gpt
