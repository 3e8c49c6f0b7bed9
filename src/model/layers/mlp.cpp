#include "model/layers/mlp.h"

namespace gpt {
namespace {

struct Halves {
  TensorView gate, up;
};

// Splits the columns of [N,2F] into gate and up. The gate comes first.
Halves split_gated(int64_t width, const TensorView& up) {
  return {.gate = up.slice_cols(0, width), .up = up.slice_cols(width, width)};
}

std::vector<Linear::Part> up_parts(const LayerConfig& c, const ParamTable& table, int64_t layer) {
  std::vector<Linear::Part> parts;
  if (c.gated)
    parts.push_back({table.find(Role::gate_proj_weight, layer), table.find(Role::gate_proj_bias, layer)});
  parts.push_back({table.find(Role::up_proj_weight, layer), table.find(Role::up_proj_bias, layer)});
  return parts;
}

}  // namespace

void MlpActs::plan(Planner& planner, const LayerConfig& c) {
  const int64_t rows = planner.rows();
  planner.add_linear_scratch(rows, c.gated ? 2 * c.d_ff : c.d_ff, c.n_embd);
  planner.add_linear_scratch(rows, c.d_ff, c.n_embd);
  planner.add_linear_scratch(rows, c.n_embd, c.d_ff);
  planner.reserve(up, "mlp fc", {rows, c.gated ? 2 * c.d_ff : c.d_ff});
  planner.reserve(hidden, "mlp hidden", {rows, c.d_ff});
}

void MlpGrads::plan(Planner& planner, const LayerConfig& c) {
  const int64_t rows = planner.rows();
  if (c.gated) planner.reserve(dhidden, "d mlp hidden", {rows, c.d_ff});
  planner.reserve(dup, "d mlp fc", {rows, c.gated ? 2 * c.d_ff : c.d_ff});
}

Mlp::Mlp(const LayerConfig& c, const ParamTable& table, int64_t layer)
    : act_(c.act),
      gated_(c.gated),
      width_(c.d_ff),
      layer_(layer),
      up_(table, up_parts(c, table, layer)),
      down_(table, {{table.find(Role::down_proj_weight, layer), table.find(Role::down_proj_bias, layer)}}) {}

void Mlp::forward(const ForwardContext& pass, MlpActs& acts, const TensorView& in,
                  const TensorView& out) const {
  forward_hidden(pass, acts, in);
  down_.forward(pass, acts.hidden, out);
}

void Mlp::forward_hidden(const ForwardContext& pass, MlpActs& acts, const TensorView& in) const {
  if (gated_) {
    up_.forward(pass, in, acts.up);
    const Halves x = split_gated(width_, acts.up);
    pass.ctx.kernels.act_forward(pass.ctx, {.act = act_, .out = acts.hidden, .x = x.up, .gate = x.gate});
  } else {
    const bool is_read = pass.is_training() || pass.observer != nullptr || !pass.batch.adapters.empty();
    up_.forward(pass, in, acts.hidden, {act_, is_read ? acts.up : TensorView{}});
  }
  pass.show(layer_, "mlp.fc", acts.up);
  pass.show(layer_, "mlp.hidden", acts.hidden);
}

void Mlp::backward(const BackwardContext& pass, const MlpActs& acts, MlpGrads& grads, const TensorView& in,
                   const TensorView& dout, const TensorView& din, bool accumulate_din) const {
  if (gated_) {
    const Halves x = split_gated(width_, acts.up);
    const Halves dx = split_gated(width_, grads.dup);
    down_.backward(pass, acts.hidden, dout, grads.dhidden, false);
    pass.ctx.kernels.act_backward(
        pass.ctx,
        {.act = act_, .dx = dx.up, .dgate = dx.gate, .dout = grads.dhidden, .x = x.up, .gate = x.gate});
    up_.backward(pass, in, grads.dup, din, accumulate_din);
  } else {
    down_.backward(pass, acts.hidden, dout, grads.dup, false, {act_, acts.up});
    up_.backward(pass, in, grads.dup, din, accumulate_din);
  }
}

}  // namespace gpt
