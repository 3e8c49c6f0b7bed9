#include "model/layers/mlp.h"

namespace gpt {
namespace {

bool gated(const ModelConfig& c) {
  return c.act == Act::swiglu;
}

struct Halves {
  TensorView gate, fc;
};

// The columns of [N,F] or [N,2F]: the gate comes first.
Halves split_gated(const ModelConfig& c, const TensorView& fc) {
  if (!gated(c)) return {.gate = {}, .fc = fc};
  return {.gate = fc.columns(0, c.d_ff), .fc = fc.columns(c.d_ff, c.d_ff)};
}

std::vector<Linear::Part> fc_parts(const ModelConfig& c, const ParamTable& table, int64_t layer) {
  std::vector<Linear::Part> parts;
  if (gated(c)) parts.push_back({table.find(Role::gate_weight, layer), table.find(Role::gate_bias, layer)});
  parts.push_back({table.find(Role::fc_weight, layer), table.find(Role::fc_bias, layer)});
  return parts;
}

}  // namespace

void MlpActs::plan(Planner& planner, const ModelConfig& c) {
  const int64_t rows = planner.rows();
  planner.add_linear_scratch(rows, gated(c) ? 2 * c.d_ff : c.d_ff, c.n_embd);
  planner.add_linear_scratch(rows, c.d_ff, c.n_embd);
  planner.add_linear_scratch(rows, c.n_embd, c.d_ff);
  planner.reserve(fc, "mlp fc", {rows, gated(c) ? 2 * c.d_ff : c.d_ff});
  planner.reserve(hidden, "mlp hidden", {rows, c.d_ff});
}

void MlpGrads::plan(Planner& planner, const ModelConfig& c) {
  const int64_t rows = planner.rows();
  if (gated(c)) planner.reserve(dhidden, "d mlp hidden", {rows, c.d_ff});
  planner.reserve(dfc, "d mlp fc", {rows, gated(c) ? 2 * c.d_ff : c.d_ff});
}

Mlp::Mlp(const ModelConfig& c, const ParamTable& table, int64_t layer)
    : layer_(layer),
      fc_(table, fc_parts(c, table, layer)),
      proj_(table, {{table.find(Role::proj_weight, layer), table.find(Role::proj_bias, layer)}}) {}

void Mlp::forward(const Pass& pass, MlpActs& acts, const TensorView& in, const TensorView& out) const {
  forward_hidden(pass, acts, in);
  proj_.forward(pass, acts.hidden, out);
}

void Mlp::forward_hidden(const Pass& pass, MlpActs& acts, const TensorView& in) const {
  const Act act = pass.config.act;
  if (gated(pass.config)) {
    fc_.forward(pass, in, acts.fc);
    const Halves x = split_gated(pass.config, acts.fc);
    pass.ctx.kernels.act_forward(pass.ctx, {.act = act, .out = acts.hidden, .x = x.fc, .gate = x.gate});
  } else {
    const bool is_read = pass.training || pass.observer != nullptr || !pass.batch.adapters.empty();
    fc_.forward(pass, in, acts.hidden, {act, is_read ? acts.fc : TensorView{}});
  }
  pass.show(layer_, "mlp.fc", acts.fc);
  pass.show(layer_, "mlp.hidden", acts.hidden);
}

void Mlp::backward(const Pass& pass, const MlpActs& acts, MlpGrads& grads, const TensorView& in,
                   const TensorView& dout, const TensorView& din, bool accumulate_din) const {
  const Act act = pass.config.act;
  if (gated(pass.config)) {
    const Halves x = split_gated(pass.config, acts.fc);
    const Halves dx = split_gated(pass.config, grads.dfc);
    proj_.backward(pass, acts.hidden, dout, grads.dhidden, false);
    pass.ctx.kernels.act_backward(
        pass.ctx,
        {.act = act, .dx = dx.fc, .dgate = dx.gate, .dout = grads.dhidden, .x = x.fc, .gate = x.gate});
    fc_.backward(pass, in, grads.dfc, din, accumulate_din);
  } else {
    proj_.backward(pass, acts.hidden, dout, grads.dfc, false, {act, acts.fc});
    fc_.backward(pass, in, grads.dfc, din, accumulate_din);
  }
}

}  // namespace gpt
