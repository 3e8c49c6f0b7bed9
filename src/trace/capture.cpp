#include "trace/capture.h"

#include <algorithm>

namespace gpt {

Capture::Capture(const Model& model, ThreadPool& pool, const KernelTable& kernels,
                 std::span<const int32_t> ids, Options options)
    : model_(model),
      config_(model.config),
      pool_(pool),
      kernels_(kernels),
      options_(options),
      ids_(ids.begin(), ids.end()),
      planner_(options.dtype) {
  config_.dropout = config_.embd_dropout = config_.attn_dropout = config_.resid_dropout = 0;
  check(config_.n_ctx);
  const int64_t T = n_tokens();
  for (int64_t t = 0; t < T; ++t)
    positions_.push_back(static_cast<int32_t>(t));
  seqs_.push_back({.q_start = 0, .q_len = T, .kv_len = T});
  if (config_.position == Position::rope) rope_ = RopeTable(config_, T, planner_.wide());
  plan();
  run();
}

void Capture::check(int64_t n_ctx) const {
  if (ids_.empty()) fail("the prompt has no tokens; there is nothing to trace");
  if (n_tokens() > n_ctx)
    fail("the prompt has {} tokens, the model's context {}; give a shorter one", n_tokens(), n_ctx);
  for (const int32_t id : ids_) {
    if (id < 0 || id >= config_.vocab_size)
      fail("token id {} is out of range: the model knows 0 to {}", id, config_.vocab_size - 1);
  }
}

void Capture::plan_block(int64_t layer) {
  const int64_t T = n_tokens();
  BlockActs& acts = acts_[static_cast<size_t>(layer)];
  plan_block_saved(planner_, acts, config_, T, true);
  plan_block_scratch(planner_, acts, config_, T);
  planner_.reserve(acts.attention.projected, "qkv as projected", {T, config_.qkv_dim()});
  if (config_.qk_norm)
    planner_.reserve(acts.attention.rotated, "qk as rotated", {T, config_.q_dim() + config_.kv_dim()});
  planner_.reserve(attention_[static_cast<size_t>(layer)], "attention weights", {1, config_.n_head, T, T});
}

void Capture::plan() {
  const int64_t T = n_tokens();
  const auto n_layer = static_cast<size_t>(config_.n_layer);
  residual_.resize(n_layer + 1);
  acts_.resize(n_layer);
  attention_.resize(n_layer);
  planner_.reserve(token_rows_, "token rows", {T, config_.n_embd}, planner_.wide());
  for (TensorView& stream : residual_)
    planner_.reserve(stream, "residual stream", {T, config_.n_embd}, planner_.wide());
  embedding_.plan(planner_, config_, T, true);
  for (int64_t layer = 0; layer < config_.n_layer; ++layer)
    plan_block(layer);
  plan_head(planner_, head_, config_, T, false);
  planner_.reserve(lens_normed_, "normed, for the logit lens", {T, config_.n_embd});
  planner_.reserve(logits_, "logits", {T, config_.vocab_size}, planner_.wide());
  if (planner_.bytes() > kMaxBytes) {
    fail(
        "all that the model computes for {} tokens needs {} MiB, more than the {} MiB that a trace may take; "
        "give a shorter prompt",
        T, planner_.bytes() >> 20, kMaxBytes >> 20);
  }
  arena_ = planner_.commit("trace");
  head_.x = residual_.back();

  const AttentionShape shape{
      .n_head = config_.n_head, .n_kv_head = config_.n_kv_head, .head_dim = config_.head_dim, .scale = 1};
  ScratchNeed need = attention_scratch(shape, T, T, false, options_.dtype);
  const int64_t widest = std::max({config_.qkv_dim(), 2 * config_.d_ff, config_.n_embd, config_.vocab_size});
  const int64_t deepest = std::max({config_.n_embd, config_.d_ff, config_.q_dim()});
  // Where a matrix has no packed form, its product is computed in another type; files may have blocks.
  for (DType t : {options_.weights.value_or(options_.dtype), options_.dtype, DType::f16, DType::q8_0})
    need = max_need(need, linear_scratch(T, widest, deepest, t));
  workspace_ = Workspace(need, pool_.size());
}

Pass Capture::make_pass(const ExecContext& ctx) const {
  Pass pass{.ctx = ctx, .config = config_, .weights = model_.weights};
  pass.batch = {.rows = n_tokens(), .ids = ids_.data(), .positions = positions_.data(), .seqs = seqs_};
  pass.compute = options_.weights.value_or(options_.dtype);
  pass.packed = model_.packed.get();
  pass.rope_cos = rope_.cos;
  pass.rope_sin = rope_.sin;
  pass.row_invariant = true;  // as in inference
  pass.attention_weights = attention_;
  pass.training = true;  // keeps what the activation function reads; there is no dropout
  return pass;
}

void Capture::run() {
  const ExecContext ctx{pool_, kernels_, workspace_.scratch()};
  const Pass pass = make_pass(ctx);
  const int wte = model_.table.find(Role::wte);
  kernels_.embedding_forward(
      ctx, {.out = token_rows_, .ids = ids_.data(), .positions = nullptr, .wte = pass.weight(wte)});
  const bool post = config_.norm_position == NormPosition::post;
  TensorView x, branch;
  model_.layers.embedding.forward(pass, embedding_, residual_[0]);
  for (size_t layer = 0; layer < acts_.size(); ++layer) {
    BlockActs& acts = acts_[layer];
    acts.x_in = residual_[layer];
    acts.x_out = residual_[layer + 1];
    model_.layers.blocks[layer].forward(pass, acts, x, branch);
    if (!post) {
      x = acts.x_mid;
      branch = acts.mlp_out;
    }
  }
  model_.layers.head.forward_norm(pass, head_, x, branch);
  model_.layers.head.logits(pass, head_.normed, logits_);
}

void Capture::read_out(const TensorView& stream, const TensorView& logits) {
  const ExecContext ctx{pool_, kernels_, workspace_.scratch()};
  const Pass pass = make_pass(ctx);
  HeadActs head{.x = stream, .normed = lens_normed_};
  model_.layers.head.forward_norm(pass, head, {}, {});
  model_.layers.head.logits(pass, head.normed, logits);
}

TensorView Capture::position_rows() const {
  const int wpe = model_.table.find(Role::wpe);
  return wpe < 0 ? TensorView{} : model_.weights[static_cast<size_t>(wpe)].row_range(0, n_tokens());
}

void Capture::add_block(std::vector<NamedActivation>& out, int64_t layer) const {
  const ModelConfig& c = config_;
  const BlockActs& a = block(layer);
  const int64_t T = n_tokens(), q = c.q_dim(), kv = c.kv_dim();
  const bool post = c.norm_position == NormPosition::post, gated = c.act == Act::swiglu;
  const std::string name = "blocks." + std::to_string(layer) + ".";
  const auto add = [&](const char* part, const TensorView& view, Shape shape) {
    if (view) out.push_back({name + part, view, std::move(shape)});
  };
  const auto add_qkv = [&](const std::string& suffix, const TensorView& v, bool values) {
    if (!v) return;
    add(("q" + suffix).c_str(), v.columns(0, q), {T, c.n_head, c.head_dim});
    add(("k" + suffix).c_str(), v.columns(q, kv), {T, c.n_kv_head, c.head_dim});
    if (values) add("v", v.columns(q + kv, kv), {T, c.n_kv_head, c.head_dim});
  };
  const Shape stream{T, c.n_embd};
  add("in", a.x_in, stream);
  if (!post) add("norm1.out", a.norm1_out, stream);
  add_qkv(".projected", a.attention.projected, false);
  add_qkv(".rotated", a.attention.rotated, false);
  add_qkv("", a.attention.qkv, true);
  add("attention", attention(layer), {c.n_head, T, T});
  add("heads", a.attention.mixed, {T, c.n_head, c.head_dim});
  add("attention.out", a.attention_out, stream);
  add("mid", a.x_mid, stream);
  if (post) add("norm1.out", a.norm1_out, stream);
  if (!post) add("norm2.out", a.norm2_out, stream);
  if (gated) add("mlp.gate", a.mlp.fc.columns(0, c.d_ff), {T, c.d_ff});
  add("mlp.fc", gated ? a.mlp.fc.columns(c.d_ff, c.d_ff) : a.mlp.fc, {T, c.d_ff});
  add("mlp.hidden", a.mlp.hidden, {T, c.d_ff});
  add("mlp.out", a.mlp_out, stream);
  if (post) add("sum", a.x_sum, stream);
  add("out", a.x_out, stream);
}

std::vector<NamedActivation> Capture::activations() const {
  const int64_t T = n_tokens();
  const Shape stream{T, config_.n_embd};
  std::vector<NamedActivation> out;
  out.push_back({"embedding.token", token_rows_, stream});
  if (const TensorView positions = position_rows()) out.push_back({"embedding.position", positions, stream});
  if (embedding_.raw) out.push_back({"embedding.sum", embedding_.raw, stream});
  for (int64_t layer = 0; layer < n_layer(); ++layer)
    add_block(out, layer);
  if (config_.final_norm) out.push_back({"final_norm.out", head_.normed, stream});
  out.push_back({"logits", logits_, {T, config_.vocab_size}});
  return out;
}

}  // namespace gpt
