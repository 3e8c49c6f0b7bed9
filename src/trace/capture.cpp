#include "trace/capture.h"

#include "tensor/device.h"

namespace gpt {

namespace {

constexpr std::pair<std::string_view, TensorView BlockTrace::*> kBlockViews[] = {
    {"norm1.out", &BlockTrace::norm1_out},
    {"qkv.projected", &BlockTrace::qkv_projected},
    {"qk.rotated", &BlockTrace::qk_rotated},
    {"qkv", &BlockTrace::qkv},
    {"heads", &BlockTrace::heads},
    {"attention.out", &BlockTrace::attention_out},
    {"mid", &BlockTrace::mid},
    {"norm2.out", &BlockTrace::norm2_out},
    {"mlp.fc", &BlockTrace::mlp_fc},
    {"mlp.hidden", &BlockTrace::mlp_hidden},
    {"mlp.out", &BlockTrace::mlp_out},
    {"sum", &BlockTrace::sum}};

}  // namespace

Capture::Capture(const Model& model, const Backend& backend, std::span<const int32_t> ids, Options options)
    : model_(model),
      backend_(backend),
      ids_(ids.begin(), ids.end()),
      planner_({.rows = std::ssize(ids), .dtype = options.dtype}, backend.kernels) {
  check();
  plan();
  inference_.emplace(
      model, backend,
      Inference::Options{
          .slots = 0, .max_rows = n_tokens(), .dtype = options.dtype, .weights = options.weights});
  run();
}

void Capture::check() const {
  if (ids_.empty()) fail("the prompt has no tokens; use a prompt of at least one token");
  if (n_tokens() > config().n_ctx) {
    fail("the prompt has {} tokens, but the model's context length is {}; use a shorter prompt", n_tokens(),
         config().n_ctx);
  }
  for (const int32_t id : ids_) {
    if (id < 0 || id >= config().vocab_size)
      fail("token id {} is out of range: expected 0 to {}", id, config().vocab_size - 1);
  }
}

void Capture::plan_block(BlockTrace& block) {
  const ModelConfig& c = config();
  const int64_t T = n_tokens();
  const Shape stream{T, c.n_embd};
  const bool post = c.norm_position == NormPosition::post;
  planner_.reserve(block.norm1_out, "norm1 output", stream, post ? planner_.wide() : planner_.shape().dtype);
  if (post) planner_.reserve(block.sum, "residual after mlp", stream, planner_.wide());
  if (!post) planner_.reserve(block.norm2_out, "norm2 output", stream);
  planner_.reserve(block.mid, "residual after attention", stream, planner_.wide());
  planner_.reserve(block.qkv, "qkv", {T, c.qkv_dim()});
  planner_.reserve(block.qkv_projected, "qkv as projected", {T, c.qkv_dim()});
  if (c.qk_norm) planner_.reserve(block.qk_rotated, "qk as rotated", {T, c.q_dim() + c.kv_dim()});
  planner_.reserve(block.weights, "attention weights", {1, c.n_head, T, T});
  planner_.reserve(block.heads, "attention heads", {T, c.q_dim()});
  planner_.reserve(block.attention_out, "attention output", stream);
  planner_.reserve(block.mlp_fc, "mlp fc", {T, c.is_gated() ? 2 * c.d_ff : c.d_ff});
  planner_.reserve(block.mlp_hidden, "mlp hidden", {T, c.d_ff});
  planner_.reserve(block.mlp_out, "mlp output", stream);
}

void Capture::plan() {
  const int64_t T = n_tokens();
  const Shape stream{T, config().n_embd};
  const auto n_layer = static_cast<size_t>(config().n_layer);
  residual_.resize(n_layer + 1);
  blocks_.resize(n_layer);
  planner_.reserve(token_rows_, "token rows", stream, planner_.wide());
  if (const int wpe = model_.table.find(Role::wpe); wpe >= 0)
    planner_.reserve(position_rows_, "position rows", stream, model_.weights[static_cast<size_t>(wpe)].dtype);
  if (config().embd_norm)
    planner_.reserve(embedding_sum_, "embedding before its norm", stream, planner_.wide());
  for (TensorView& x : residual_)
    planner_.reserve(x, "residual stream", stream, planner_.wide());
  for (BlockTrace& block : blocks_)
    plan_block(block);
  if (config().final_norm) planner_.reserve(normed_, "final norm output", stream);
  planner_.reserve(logits_, "logits", {T, config().vocab_size}, planner_.wide());
  if (planner_.bytes() > kMaxBytes) {
    fail(
        "the intermediate results for {} tokens need {} MiB, but a trace may use at most {} MiB; use a "
        "shorter prompt",
        T, planner_.bytes() >> 20, kMaxBytes >> 20);
  }
  arena_ = planner_.commit("trace", nullptr);
  for (size_t layer = 0; layer < n_layer; ++layer) {
    blocks_[layer].in = residual_[layer];
    blocks_[layer].out = residual_[layer + 1];
  }
}

// Returns the view for an intermediate result with this name, or an absent view if the capture does not keep
// the result.
TensorView Capture::place(int64_t layer, std::string_view name) const {
  if (name == "in") return residual(layer);
  if (name == "final_norm.in") return residual_.back();
  if (name == "final_norm.out") return normed_;
  if (name == "embedding.sum") return embedding_sum_;
  for (const auto& [part, view] : kBlockViews) {
    if (name == part) return block(layer).*view;
  }
  return {};
}

// Ops on a device write the attention weights of all layers to the same buffer, one layer after the other.
TensorView Capture::attention_weights(int64_t layer) {
  const TensorView& kept = block(layer).weights;
  if (backend_.view_device() == nullptr) return kept;
  return attention_.grow(kept.dtype, kept.dims(), "attention weights", backend_.device.get());
}

void Capture::on_tensor(int64_t layer, std::string_view name, const TensorView& view) {
  if (name == "heads" && backend_.view_device() != nullptr)
    copy_elements(attention_weights(layer), block(layer).weights);
  if (const TensorView kept = place(layer, name)) copy_elements(view, kept);
}

void Capture::run() {
  const auto weight = [&](Role role) {
    const int id = model_.table.find(role);
    return id < 0 ? TensorView{} : model_.weights[static_cast<size_t>(id)];
  };
  const Buffer rows(static_cast<size_t>(token_rows_.size()) * dtype_size(token_rows_.dtype), "token rows",
                    backend_.device.get());
  const TensorView looked_up = rows.view(0, token_rows_.dtype, token_rows_.dims());
  DeviceArray<int32_t> ids(backend_.device.get());
  backend_.kernels.embedding_forward(
      backend_.context(),
      {.out = looked_up, .ids = ids.upload(ids_), .positions = {}, .wte = weight(Role::wte)});
  copy_elements(looked_up, token_rows_);
  if (position_rows_) copy_elements(weight(Role::wpe).slice_rows(0, n_tokens()), position_rows_);
  inference_->observe(ids_, 1, *this, logits_);
}

void Capture::read_out(const TensorView& stream, const TensorView& logits) {
  inference_->read_out(stream, logits);
}

void Capture::add_block(std::vector<NamedActivation>& out, int64_t layer) const {
  const ModelConfig& c = config();
  const BlockTrace& a = block(layer);
  const int64_t T = n_tokens(), q = c.q_dim(), kv = c.kv_dim();
  const bool post = c.norm_position == NormPosition::post, gated = c.is_gated();
  const std::string name = "blocks." + std::to_string(layer) + ".";
  const auto add = [&](const char* part, const TensorView& view, Shape shape) {
    if (view) out.push_back({name + part, view, std::move(shape)});
  };
  const auto add_qkv = [&](const std::string& suffix, const TensorView& v, bool values) {
    if (!v) return;
    add(("q" + suffix).c_str(), v.slice_cols(0, q), {T, c.n_head, c.head_dim});
    add(("k" + suffix).c_str(), v.slice_cols(q, kv), {T, c.n_kv_head, c.head_dim});
    if (values) add("v", v.slice_cols(q + kv, kv), {T, c.n_kv_head, c.head_dim});
  };
  const Shape stream{T, c.n_embd};
  add("in", a.in, stream);
  if (!post) add("norm1.out", a.norm1_out, stream);
  add_qkv(".projected", a.qkv_projected, false);
  add_qkv(".rotated", a.qk_rotated, false);
  add_qkv("", a.qkv, true);
  add("attention", a.weights, {c.n_head, T, T});
  add("heads", a.heads, {T, c.n_head, c.head_dim});
  add("attention.out", a.attention_out, stream);
  add("mid", a.mid, stream);
  if (post) add("norm1.out", a.norm1_out, stream);
  add("norm2.out", a.norm2_out, stream);
  if (gated) add("mlp.gate", a.mlp_fc.slice_cols(0, c.d_ff), {T, c.d_ff});
  add("mlp.fc", gated ? a.mlp_fc.slice_cols(c.d_ff, c.d_ff) : a.mlp_fc, {T, c.d_ff});
  add("mlp.hidden", a.mlp_hidden, {T, c.d_ff});
  add("mlp.out", a.mlp_out, stream);
  add("sum", a.sum, stream);
  add("out", a.out, stream);
}

std::vector<NamedActivation> Capture::activations() const {
  const int64_t T = n_tokens();
  const Shape stream{T, config().n_embd};
  std::vector<NamedActivation> out;
  out.push_back({"embedding.token", token_rows_, stream});
  if (const TensorView positions = position_rows()) out.push_back({"embedding.position", positions, stream});
  if (embedding_sum_) out.push_back({"embedding.sum", embedding_sum_, stream});
  for (int64_t layer = 0; layer < n_layer(); ++layer)
    add_block(out, layer);
  if (normed_) out.push_back({"final_norm.out", normed_, stream});
  out.push_back({"logits", logits_, {T, config().vocab_size}});
  return out;
}

}  // namespace gpt
