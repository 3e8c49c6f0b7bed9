#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/config.h"
#include "tensor/tensor.h"

namespace gpt {

// The purpose of a parameter. Role, layer and expert together identify a parameter.
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
  middle_scale,  // see ModelConfig::middle_layer
  objective      // see model/objective.h
};

// Returns the role of the bias that belongs to a matrix, or `objective` if the matrix has no bias.
Role bias_of(Role weight);

// The component under which `gpt info` counts a parameter.
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

// The initialization of a parameter.
struct InitRule {
  enum class Kind : uint8_t { zeros, ones, normal, uniform };
  Kind kind = Kind::zeros;
  double scale = 0;  // standard deviation, or half the width of the uniform interval
};

// The description of one parameter. The parameter table is the only source for memory allocation,
// initialization, file contents and optimizer groups.
struct ParamSpec {
  std::string name;  // name in gpt.cpp files, such as "blocks.0.attn.q.weight"
  Role role;
  int64_t layer;  // -1 outside the layers
  Shape shape;    // matrices are [out,in]
  InitRule init;
  bool decay;  // true if weight decay applies (2 or more dimensions)
  // True if the parameter is stored directly after the previous parameter. For example, q, k and v form one
  // matrix.
  bool contiguous_with_previous;
  Component component;
  bool is_lookup_table = false;  // true if rows are only looked up by id or position, and never multiplied
  bool trainable = true;         // true if the parameter has a gradient and optimizer state
  int64_t expert = -1;           // index of the expert in its layer; -1: not part of an expert

  int64_t size() const;
};

class ParamTable {
 public:
  // Creates the table for a completed config. more: additional parameters, which follow the model parameters.
  explicit ParamTable(const ModelConfig& config, const std::vector<ParamSpec>& more = {});

  // Creates a table of the given parameters, which do not belong to a model.
  explicit ParamTable(std::vector<ParamSpec> specs);

  const std::vector<ParamSpec>& specs() const { return specs_; }
  const ParamSpec& operator[](int id) const { return specs_[static_cast<size_t>(id)]; }
  // Must be called before memory for gradients is allocated.
  void set_trainable(int id, bool trainable) { specs_[static_cast<size_t>(id)].trainable = trainable; }
  int count() const { return static_cast<int>(specs_.size()); }
  // Returns the number of parameters that belong to the model itself. These parameters come first in the
  // table. Model files contain no other parameters.
  int model_count() const { return model_count_; }
  // Returns the id of a parameter, or -1 if the config has no such parameter.
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
