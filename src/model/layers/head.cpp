#include "model/layers/head.h"

#include <algorithm>

namespace gpt {

int64_t Head::chunk_rows(const ModelConfig& c, int64_t rows) {
  constexpr int64_t kTargetElements = int64_t{26} << 20;  // 104 MiB of fp32 logits
  const int64_t fitting = std::max<int64_t>(64, kTargetElements / c.vocab_size / 64 * 64);
  return std::min(rows, fitting);
}

void HeadActs::plan(Planner& planner, const ModelConfig& c) {
  const int64_t rows = planner.rows();
  if (c.final_norm) {
    planner.reserve(normed, "final norm output", {rows, c.n_embd});
    norm.plan(planner, c);
  }
  const bool is_inference = planner.shape().mode == PassMode::inference;
  const int64_t chunk = is_inference ? rows : Head::chunk_rows(c, rows);
  planner.add_linear_scratch(chunk, c.vocab_size, c.n_embd);
  if (!is_inference) planner.reserve(logits, "logits of one chunk", {chunk, c.vocab_size}, planner.wide());
}

Head::Head(const ModelConfig& c, const ParamTable& table)
    : has_norm_(c.final_norm),
      norm_(table, Role::final_gain, Role::final_bias, -1),
      linear_(table,
              {{table.find(c.tie_embeddings ? Role::wte : Role::head_weight), table.find(Role::head_bias)}}) {
}

TensorView Head::forward_norm(const Pass& pass, HeadActs& acts, const Stream& in) const {
  const TensorView x = acts.x.row_range(0, in.x.rows());
  if (has_norm_) {
    const TensorView normed = acts.normed.row_range(0, in.x.rows());
    norm_.forward(pass, acts.norm, in, normed, x);
    pass.show(-1, "final_norm.in", x);
    pass.show(-1, "final_norm.out", normed);
    return normed;
  }
  if (in.branch) pass.ctx.kernels.add(pass.ctx, {.out = x, .a = in.x, .b = in.branch});
  pass.show(-1, "final_norm.in", x);
  return x;
}

void Head::logits(const Pass& pass, const TensorView& normed, const TensorView& logits) const {
  linear_.forward(pass, normed, logits);
  if (pass.config.logit_softcap > 0) {
    pass.ctx.kernels.softcap(pass.ctx, {.x = logits, .cap = pass.config.logit_softcap});
  }
}

namespace {

// Rows of another type at the addresses of the given ones.
TensorView in_place_of(const TensorView& wide, DType dtype) {
  TensorView v = wide;
  v.dtype = dtype;
  v.ld = wide.ld * static_cast<int64_t>(dtype_size(wide.dtype) / dtype_size(dtype));
  return v;
}

}  // namespace

void Head::loss(const Pass& pass, HeadActs& acts, const TensorView& normed, const int32_t* targets,
                const StepState& step, double* losses, const TensorView& dx) const {
  const bool backward = !pass.grads.empty();
  const int64_t rows = normed.rows();
  const int64_t chunk = acts.logits.rows();
  Pass part = pass;  // later chunks add to what the first one wrote
  for (int64_t at = 0; at < rows; at += chunk) {
    const int64_t n = std::min(chunk, rows - at);
    const TensorView x = normed.row_range(at, n);
    const TensorView logits = acts.logits.row_range(0, n);
    const TensorView dlogits = in_place_of(logits, x.dtype);
    linear_.forward(part, x, logits);
    pass.ctx.kernels.cross_entropy(pass.ctx, {.logits = logits,
                                              .targets = targets + at,
                                              .losses = losses + at,
                                              .dlogits = backward ? dlogits : TensorView{},
                                              .softcap = pass.config.logit_softcap,
                                              .step = &step});
    if (backward) linear_.backward(part, x, dlogits, dx.row_range(at, n), false);
    part.accumulate_grads = true;
  }
}

void Head::backward_norm(const Pass& pass, const HeadActs& acts, const TensorView& dx) const {
  if (has_norm_) norm_.backward(pass, acts.norm, acts.x, dx, dx);
}

}  // namespace gpt
