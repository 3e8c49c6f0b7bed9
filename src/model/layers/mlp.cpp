#include "model/layers/mlp.h"

namespace gpt {
namespace {

bool gated(const ModelConfig& c) {
  return c.act == Act::swiglu;
}

struct Halves {
  TensorView gate, up;
};

// The columns of [N,F] or [N,2F]: the gate comes first.
Halves split_gated(const ModelConfig& c, const TensorView& up) {
  if (!gated(c)) return {.gate = {}, .up = up};
  return {.gate = up.slice_cols(0, c.d_ff), .up = up.slice_cols(c.d_ff, c.d_ff)};
}

std::vector<Linear::Part> up_parts(const ModelConfig& c, const ParamTable& table, int64_t layer) {
  std::vector<Linear::Part> parts;
  if (gated(c))
    parts.push_back({table.find(Role::gate_proj_weight, layer), table.find(Role::gate_proj_bias, layer)});
  parts.push_back({table.find(Role::up_proj_weight, layer), table.find(Role::up_proj_bias, layer)});
  return parts;
}

}  // namespace

void MlpActs::plan(Planner& planner, const ModelConfig& c) {
  const int64_t rows = planner.rows();
  planner.add_linear_scratch(rows, gated(c) ? 2 * c.d_ff : c.d_ff, c.n_embd);
  planner.add_linear_scratch(rows, c.d_ff, c.n_embd);
  planner.add_linear_scratch(rows, c.n_embd, c.d_ff);
  planner.reserve(up, "mlp fc", {rows, gated(c) ? 2 * c.d_ff : c.d_ff});
  planner.reserve(hidden, "mlp hidden", {rows, c.d_ff});
}

void MlpGrads::plan(Planner& planner, const ModelConfig& c) {
  const int64_t rows = planner.rows();
  if (gated(c)) planner.reserve(dhidden, "d mlp hidden", {rows, c.d_ff});
  planner.reserve(dup, "d mlp fc", {rows, gated(c) ? 2 * c.d_ff : c.d_ff});
}

Mlp::Mlp(const ModelConfig& c, const ParamTable& table, int64_t layer)
    : layer_(layer),
      up_(table, up_parts(c, table, layer)),
      down_(table, {{table.find(Role::down_proj_weight, layer), table.find(Role::down_proj_bias, layer)}}) {}

void Mlp::forward(const ForwardContext& pass, MlpActs& acts, const TensorView& in,
                  const TensorView& out) const {
  forward_hidden(pass, acts, in);
  down_.forward(pass, acts.hidden, out);
}

void Mlp::forward_hidden(const ForwardContext& pass, MlpActs& acts, const TensorView& in) const {
  const Act act = pass.config.act;
  if (gated(pass.config)) {
    up_.forward(pass, in, acts.up);
    const Halves x = split_gated(pass.config, acts.up);
    pass.ctx.kernels.act_forward(pass.ctx, {.act = act, .out = acts.hidden, .x = x.up, .gate = x.gate});
  } else {
    const bool is_read = pass.is_training() || pass.observer != nullptr || !pass.batch.adapters.empty();
    up_.forward(pass, in, acts.hidden, {act, is_read ? acts.up : TensorView{}});
  }
  pass.show(layer_, "mlp.fc", acts.up);
  pass.show(layer_, "mlp.hidden", acts.hidden);
}

void Mlp::backward(const ForwardContext& pass, const MlpActs& acts, MlpGrads& grads, const TensorView& in,
                   const TensorView& dout, const TensorView& din, bool accumulate_din) const {
  const Act act = pass.config.act;
  if (gated(pass.config)) {
    const Halves x = split_gated(pass.config, acts.up);
    const Halves dx = split_gated(pass.config, grads.dup);
    down_.backward(pass, acts.hidden, dout, grads.dhidden, false);
    pass.ctx.kernels.act_backward(
        pass.ctx,
        {.act = act, .dx = dx.up, .dgate = dx.gate, .dout = grads.dhidden, .x = x.up, .gate = x.gate});
    up_.backward(pass, in, grads.dup, din, accumulate_din);
  } else {
    down_.backward(pass, acts.hidden, dout, grads.dup, false, {act, acts.up});
    up_.backward(pass, in, grads.dup, din, accumulate_din);
  }
}

}  // namespace gpt
