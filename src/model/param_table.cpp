#include "model/param_table.h"

#include <algorithm>
#include <cmath>

#include "base/ranges.h"

namespace gpt {
namespace {

using Kind = InitRule::Kind;

// Init::torch follows nn.Linear of PyTorch: weight and bias are uniform in +-1/sqrt(fan_in). Init::nanochat
// is normal with standard deviation min(1, sqrt(out/in)) / sqrt(in). With Init::nanochat, matrices that write
// to the residual stream start at zero.
InitRule linear_init(const ModelConfig& c, int64_t out, int64_t in, bool residual) {
  const double fan_in = static_cast<double>(in);
  switch (c.init) {
    case Init::normal: {
      const double shrink =
          residual && c.residual_init_scale ? 1 / std::sqrt(2.0 * static_cast<double>(c.n_layer)) : 1;
      return {Kind::normal, c.init_std * shrink};
    }
    case Init::torch:
      return {Kind::uniform, 1 / std::sqrt(fan_in)};
    case Init::nanochat:
      if (residual) return {Kind::zeros, 0};
      return {Kind::normal, std::min(1.0, std::sqrt(static_cast<double>(out) / fan_in)) / std::sqrt(fan_in)};
  }
  return {};
}

InitRule bias_init(const ModelConfig& c, int64_t in) {
  if (c.init == Init::torch) return {Kind::uniform, 1 / std::sqrt(static_cast<double>(in))};
  return {Kind::zeros, 0};
}

InitRule embedding_init(const ModelConfig& c) {
  return {Kind::normal, c.init == Init::normal ? c.init_std : 1.0};
}

}  // namespace

Role bias_of(Role weight) {
  constexpr std::pair<Role, Role> kBiases[] = {{Role::q_weight, Role::q_bias},
                                               {Role::k_weight, Role::k_bias},
                                               {Role::v_weight, Role::v_bias},
                                               {Role::out_weight, Role::out_bias},
                                               {Role::gate_proj_weight, Role::gate_proj_bias},
                                               {Role::up_proj_weight, Role::up_proj_bias},
                                               {Role::down_proj_weight, Role::down_proj_bias},
                                               {Role::head_weight, Role::head_bias}};
  const auto* found = find_by(kBiases, &std::pair<Role, Role>::first, weight);
  return found == nullptr ? Role::objective : found->second;
}

int64_t ParamSpec::size() const {
  return checked_size(shape, name);
}

ParamTable::ParamTable(const ModelConfig& c, const std::vector<ParamSpec>& more) {
  add_embeddings(c);
  int64_t layer = 0;
  for (const LayerConfig& config : layer_configs(c))
    add_block(c, config, layer++);
  if (c.middle_layer >= 0)
    add(Role::middle_scale, -1, "middle_scale", {1}, {Kind::zeros, 0}, Component::residual);
  if (c.final_norm)
    add_norm(c.n_embd, c.norm_affine, c.has_norm_bias(), {Role::final_gain, Role::final_bias}, -1,
             "final_norm", Component::final_norm);
  if (!c.tie_embeddings) {
    // The head of nanochat starts at zero, so that the first loss is exactly ln V.
    const InitRule init =
        c.init == Init::nanochat ? InitRule{} : linear_init(c, c.vocab_size, c.n_embd, false);
    add(Role::head_weight, -1, "head.weight", {c.vocab_size, c.n_embd}, init, Component::head);
    if (c.head_bias)
      add(Role::head_bias, -1, "head.bias", {c.vocab_size}, bias_init(c, c.n_embd), Component::head);
  }
  model_count_ = count();
  specs_.insert(specs_.end(), more.begin(), more.end());
}

ParamTable::ParamTable(std::vector<ParamSpec> specs) : specs_(std::move(specs)) {
  for (const ParamSpec& spec : specs_)
    index_.try_emplace({spec.role, spec.layer, spec.expert}, static_cast<int>(&spec - specs_.data()));
}

void ParamTable::add(Role role, int64_t layer, std::string name, Shape shape, InitRule init,
                     Component component, bool contiguous_with_previous) {
  const bool decay = shape.size() >= 2;
  index_[{role, layer, -1}] = count();
  specs_.push_back(
      {std::move(name), role, layer, std::move(shape), init, decay, contiguous_with_previous, component});
}

void ParamTable::add_embeddings(const ModelConfig& c) {
  add(Role::wte, -1, "wte.weight", {c.vocab_size, c.n_embd}, embedding_init(c), Component::token_embedding);
  specs_.back().is_lookup_table = !c.tie_embeddings;
  if (c.position == Position::learned) {
    add(Role::wpe, -1, "wpe.weight", {c.n_ctx, c.n_embd}, embedding_init(c), Component::position_embedding);
    specs_.back().is_lookup_table = true;
  }
}

void ParamTable::add_block(const ModelConfig& c, const LayerConfig& l, int64_t layer) {
  const std::string block = "blocks." + std::to_string(layer);
  const bool norm_bias = l.norm == NormKind::layer && l.norm_affine && l.norm_bias;
  if (l.scales_input) {
    add_scale(Role::input_scale, layer, "input_scale", Kind::ones);
    add_scale(Role::x0_scale, layer, "x0_scale", Kind::zeros);
  }
  add_norm(c.n_embd, l.norm_affine, norm_bias, {Role::norm1_gain, Role::norm1_bias}, layer, block + ".norm1",
           Component::norm);
  add_attention(c, l, layer);
  if (l.scales_branches) add_scale(Role::attention_scale, layer, "attn.scale", Kind::ones);
  add_norm(c.n_embd, l.norm_affine, norm_bias, {Role::norm2_gain, Role::norm2_bias}, layer, block + ".norm2",
           Component::norm);
  add_mlp(c, l, layer);
  if (l.scales_branches) add_scale(Role::mlp_scale, layer, "mlp.scale", Kind::ones);
}

void ParamTable::add_scale(Role role, int64_t layer, const char* name, Kind init) {
  add(role, layer, "blocks." + std::to_string(layer) + "." + name, {1}, {init, 0}, Component::residual);
}

void ParamTable::add_norm(int64_t width, bool has_gain, bool has_bias, std::pair<Role, Role> roles,
                          int64_t layer, const std::string& name, Component component) {
  if (has_gain) add(roles.first, layer, name + ".weight", {width}, {Kind::ones, 0}, component);
  if (has_bias) add(roles.second, layer, name + ".bias", {width}, {Kind::zeros, 0}, component);
}

void ParamTable::add_attention(const ModelConfig& c, const LayerConfig& l, int64_t layer) {
  const std::string name = "blocks." + std::to_string(layer) + ".attn.";
  const auto weight = [&](Role role, const char* part, int64_t out, bool contiguous_with_previous) {
    add(role, layer, name + part + ".weight", {out, c.n_embd}, linear_init(c, out, c.n_embd, false),
        Component::attention, contiguous_with_previous);
  };
  weight(Role::q_weight, "q", l.q_dim(), false);
  if (l.owns_kv()) {
    weight(Role::k_weight, "k", l.kv_dim(), true);
    weight(Role::v_weight, "v", l.kv_dim(), true);
  }
  const auto bias = [&](Role role, const char* part, int64_t out, bool contiguous_with_previous) {
    add(role, layer, name + part + ".bias", {out}, bias_init(c, c.n_embd), Component::attention,
        contiguous_with_previous);
  };
  if (c.qkv_bias) {
    bias(Role::q_bias, "q", l.q_dim(), false);
    if (l.owns_kv()) {
      bias(Role::k_bias, "k", l.kv_dim(), true);
      bias(Role::v_bias, "v", l.kv_dim(), true);
    }
  }
  if (l.qk_norm && l.qk_norm_gain) {
    const auto gain = [&](Role role, const char* part) {
      add(role, layer, name + part, {l.head_dim}, {Kind::ones, 0}, Component::norm);
    };
    gain(Role::q_norm_gain, "q_norm.weight");
    if (l.owns_kv()) gain(Role::k_norm_gain, "k_norm.weight");
  }
  add(Role::out_weight, layer, name + "out.weight", {c.n_embd, l.q_dim()},
      linear_init(c, c.n_embd, l.q_dim(), true), Component::attention);
  if (c.out_bias) {
    add(Role::out_bias, layer, name + "out.bias", {c.n_embd}, bias_init(c, l.q_dim()), Component::attention);
  }
}

void ParamTable::add_mlp(const ModelConfig& c, const LayerConfig& l, int64_t layer) {
  const std::string name = "blocks." + std::to_string(layer) + ".mlp.";
  const bool gated = l.gated;
  const InitRule init = linear_init(c, l.d_ff, c.n_embd, false);
  if (gated)
    add(Role::gate_proj_weight, layer, name + "gate.weight", {l.d_ff, c.n_embd}, init, Component::mlp);
  add(Role::up_proj_weight, layer, name + "fc.weight", {l.d_ff, c.n_embd}, init, Component::mlp, gated);
  if (c.mlp_bias) {
    if (gated)
      add(Role::gate_proj_bias, layer, name + "gate.bias", {l.d_ff}, bias_init(c, c.n_embd), Component::mlp);
    add(Role::up_proj_bias, layer, name + "fc.bias", {l.d_ff}, bias_init(c, c.n_embd), Component::mlp, gated);
  }
  add(Role::down_proj_weight, layer, name + "proj.weight", {c.n_embd, l.d_ff},
      linear_init(c, c.n_embd, l.d_ff, true), Component::mlp);
  if (c.mlp_bias)
    add(Role::down_proj_bias, layer, name + "proj.bias", {c.n_embd}, bias_init(c, l.d_ff), Component::mlp);
}

int ParamTable::find(Role role, int64_t layer, int64_t expert) const {
  const auto entry = index_.find({role, layer, expert});
  return entry == index_.end() ? -1 : entry->second;
}

int64_t ParamTable::total() const {
  int64_t n = 0;
  for (const ParamSpec& spec : specs_) {
    if (__builtin_add_overflow(n, spec.size(), &n))
      fail("the model's parameters cannot be counted in 64 bits");
  }
  return n;
}

}  // namespace gpt
