#include "model/layers/attention.h"

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

struct Qkv {
  TensorView q, k, v, qk;
};

// Returns views of queries, keys and values. Queries are the first columns of qkv. Keys and values are the
// last columns of kv, which is qkv itself or the qkv of another layer. The field qk of the result contains
// the columns that are rotated.
Qkv split(const LayerConfig& c, const TensorView& qkv, const TensorView& kv) {
  const int64_t k = kv.cols() - 2 * c.kv_dim();
  return {.q = qkv.slice_cols(0, c.q_dim()),
          .k = kv.slice_cols(k, c.kv_dim()),
          .v = kv.slice_cols(k + c.kv_dim(), c.kv_dim()),
          .qk = qkv.slice_cols(0, c.qk_dim())};
}

Qkv split(const LayerConfig& c, const AttentionActs& acts) {
  return split(c, acts.qkv, c.owns_kv() ? acts.qkv : acts.kv_source);
}

struct Heads {
  TensorView q, k;
};

// Splits [N,(H+Hkv)D] or [N,H*D] into queries and keys. If the input is absent, both results are absent.
Heads split_heads(const LayerConfig& c, const TensorView& qk) {
  if (!qk) return {};
  return {qk.slice_cols(0, c.q_dim()), qk.slice_cols(c.q_dim(), c.qk_dim() - c.q_dim())};
}

// Returns the number of keys that a query attends to; 0 means all keys. With a KV cache, the result is at
// most the capacity of the cache.
int64_t window(const ForwardContext& pass, int64_t sliding) {
  const int64_t capacity = pass.kv.cache ? pass.kv.cache->capacity() : 0;
  return capacity > 0 && sliding > 0 ? std::min(capacity, sliding) : std::max(capacity, sliding);
}

}  // namespace

void AttentionActs::plan(Planner& planner, const LayerConfig& c) {
  const int64_t rows = planner.rows();
  const AttentionShape shape{.n_head = c.n_head,
                             .n_kv_head = c.n_kv_head,
                             .head_dim = c.head_dim,
                             .scale = 1,
                             .dropout = {.p = planner.is_training() ? c.attn_dropout : 0}};
  const int64_t max_q = planner.shape().max_q, max_kv = planner.shape().max_kv;
  const auto add_scratch = [&](bool backward) {
    planner.add_scratch(planner.kernels().attention_scratch(shape, max_q, max_kv, backward, planner.wide()));
  };
  add_scratch(false);
  if (planner.is_training()) add_scratch(true);
  for (const int64_t out :
       {c.qkv_dim(), c.q_dim(), c.kv_dim()})  // computed as one matmul or as separate matmuls
    planner.add_linear_scratch(rows, out, c.n_embd);
  planner.add_linear_scratch(rows, c.n_embd, c.q_dim());
  if (!c.kv_shared) planner.reserve(qkv, "qkv", {rows, c.qkv_dim()});
  planner.reserve(mixed, "attention output", {rows, c.q_dim()});
  if (!planner.is_training()) return;
  planner.reserve(lse, "attention log-sum", {rows, c.n_head}, planner.wide());
  if (!c.qk_norm) return;
  planner.reserve(q_rstd, "q rstd", {rows, c.n_head}, planner.wide());
  if (c.owns_kv()) planner.reserve(k_rstd, "k rstd", {rows, c.n_kv_head}, planner.wide());
  if (c.qk_norm_gain) planner.reserve(qk_normed, "normed q and k", {rows, c.qk_dim()});
}

void AttentionGrads::plan(Planner& planner, const LayerConfig& c) {
  planner.reserve(dmixed, "d attention output", {planner.rows(), c.q_dim()});
  planner.reserve(dqkv, "d qkv", {planner.rows(), c.qkv_dim()});
  if (!c.owns_kv()) planner.reserve(dkv, "d k and v of another layer", {planner.rows(), 2 * c.kv_dim()});
}

namespace {

std::vector<Linear::Part> projections(const LayerConfig& c, const ParamTable& table, int64_t layer) {
  std::vector<Linear::Part> parts = {{table.find(Role::q_weight, layer), table.find(Role::q_bias, layer)}};
  if (!c.owns_kv()) return parts;
  parts.push_back({table.find(Role::k_weight, layer), table.find(Role::k_bias, layer)});
  parts.push_back({table.find(Role::v_weight, layer), table.find(Role::v_bias, layer)});
  return parts;
}

}  // namespace

SelfAttention::SelfAttention(const LayerConfig& c, const ParamTable& table, int64_t layer, int rope)
    : config_(c),
      layer_(layer),
      rope_(rope),
      q_gain_(table.find(Role::q_norm_gain, layer)),
      k_gain_(table.find(Role::k_norm_gain, layer)),
      kv_layer_(c.owns_kv() ? layer : c.kv_layer),
      qkv_(table, projections(c, table, layer)),
      out_(table, {{table.find(Role::out_weight, layer), table.find(Role::out_bias, layer)}}) {}

AttentionShape SelfAttention::shape(const ForwardContext& pass) const {
  const LayerConfig& c = config_;
  return {.n_head = c.n_head,
          .n_kv_head = c.n_kv_head,
          .head_dim = c.head_dim,
          .scale = c.attention_scale.value_or(1 / std::sqrt(static_cast<double>(c.head_dim))),
          .page_size = pass.kv.cache ? KvCache::kBlock : 0,
          .window = window(pass, c.window),
          .dropout = pass.dropout(c.attn_dropout, RandomSite::dropout_attention, layer_),
          .dropout_stride = (c.n_ctx + 3) / 4 * 4,
          .max_q = pass.batch.sequences.max_q,
          .max_kv = pass.batch.sequences.max_kv};
}

void SelfAttention::rotate(const ForwardContext& pass, const TensorView& qk, int sign) const {
  const LayerConfig& c = config_;
  const RopeTable& table = pass.rope_tables[static_cast<size_t>(rope_)];
  pass.ctx.kernels.rope(pass.ctx, {.x = qk,
                                   .n_head = c.n_head + c.projected_kv_heads(),
                                   .head_dim = c.head_dim,
                                   .positions = pass.batch.positions,
                                   .cos = table.cos,
                                   .sin = table.sin,
                                   .sign = sign,
                                   .interleaved = c.rope->layout == RopeLayout::interleaved});
}

void SelfAttention::project(const ForwardContext& pass, AttentionActs& acts, const TensorView& in) const {
  const LayerConfig& c = config_;
  qkv_.forward(pass, in, acts.qkv);
  const Qkv parts = split(c, acts);
  pass.show(layer_, "qkv.projected", acts.qkv);
  if (c.rope) rotate(pass, parts.qk, static_cast<int>(c.rope->sign));
  if (c.qk_norm) {
    pass.show(layer_, "qk.rotated", parts.qk);
    const Heads normed = split_heads(c, acts.qk_normed);
    const auto norm = [&](const TensorView& x, int64_t heads, const TensorView& rstd, int gain,
                          const TensorView& before_gain) {
      pass.ctx.kernels.qk_norm_forward(pass.ctx, {.eps = c.norm_eps,
                                                  .x = x,
                                                  .n_head = heads,
                                                  .head_dim = c.head_dim,
                                                  .rstd = rstd,
                                                  .gain = pass.optional_weight(gain),
                                                  .normed = before_gain});
    };
    norm(parts.q, c.n_head, acts.q_rstd, q_gain_, normed.q);
    if (c.owns_kv()) norm(parts.k, c.n_kv_head, acts.k_rstd, k_gain_, normed.k);
  }
  pass.show(layer_, "qkv", acts.qkv);
  if (pass.kv.cache && c.owns_kv()) store(pass, acts);
}

void SelfAttention::store(const ForwardContext& pass, const AttentionActs& acts) const {
  const Qkv parts = split(config_, acts);
  const KvCache& cache = *pass.kv.cache;
  const DeviceSpan<const int64_t> rows = pass.kv.of_class(cache.class_of(layer_));
  pass.ctx.kernels.scatter_rows(
      pass.ctx, {.dst = cache.keys(layer_), .src = parts.k, .rows = rows, .scale = cache.key_scales(layer_)});
  pass.ctx.kernels.scatter_rows(
      pass.ctx,
      {.dst = cache.values(layer_), .src = parts.v, .rows = rows, .scale = cache.value_scales(layer_)});
}

void SelfAttention::attend(const ForwardContext& pass, AttentionActs& acts, const TensorView& out) const {
  const Qkv parts = split(config_, acts);
  TensorView k = parts.k, v = parts.v, k_scale, v_scale;
  size_t window_class = 0;
  if (pass.kv.cache) {
    window_class = pass.kv.cache->class_of(kv_layer_);
    k = pass.kv.cache->keys(kv_layer_);
    v = pass.kv.cache->values(kv_layer_);
    k_scale = pass.kv.cache->key_scales(kv_layer_);
    v_scale = pass.kv.cache->value_scales(kv_layer_);
  }
  pass.ctx.kernels.attention_forward(
      pass.ctx, {.shape = shape(pass),
                 .seqs = pass.batch.sequences.of_class(window_class),
                 .pages = pass.batch.sequences.pages,
                 .out = acts.mixed,
                 .q = parts.q,
                 .k = k,
                 .v = v,
                 .k_scale = k_scale,
                 .v_scale = v_scale,
                 .lse = acts.lse,
                 .weights = pass.observer ? pass.observer->attention_weights(layer_) : TensorView{}});
  pass.show(layer_, "heads", acts.mixed);
  out_.forward(pass, acts.mixed, out);
}

// A layer that reads shared keys and values adds its gradient to the sum. The backward pass of the layer that
// computes the keys and values runs last, and adds the sum to its own gradient.
void SelfAttention::add_shared_gradient(const BackwardContext& pass, const AttentionGrads& grads) const {
  SharedKvGrad& shared = *grads.shared;
  const LayerConfig& c = config_;
  const bool owns = c.owns_kv();
  const TensorView dkv = owns ? grads.dqkv.slice_cols(c.q_dim(), 2 * c.kv_dim()) : grads.dkv;
  if (shared.written)
    pass.ctx.kernels.add(pass.ctx, owns ? AddArgs{.out = dkv, .a = dkv, .b = shared.dkv}
                                        : AddArgs{.out = shared.dkv, .a = shared.dkv, .b = dkv});
  if (!owns) shared.written = true;
}

void SelfAttention::backward(const BackwardContext& pass, const AttentionActs& acts, AttentionGrads& grads,
                             const TensorView& in, const TensorView& dout, const TensorView& din,
                             bool accumulate_din) const {
  const LayerConfig& c = config_;
  const Qkv parts = split(c, acts);
  const TensorView& dkv = c.owns_kv() ? grads.dqkv : grads.shared->written ? grads.dkv : grads.shared->dkv;
  const Qkv dparts = split(c, grads.dqkv, dkv);
  out_.backward(pass, acts.mixed, dout, grads.dmixed, false);
  pass.ctx.kernels.attention_backward(pass.ctx, {.shape = shape(pass),
                                                 .seqs = pass.batch.sequences.seqs,
                                                 .dq = dparts.q,
                                                 .dk = dparts.k,
                                                 .dv = dparts.v,
                                                 .dout = grads.dmixed,
                                                 .out = acts.mixed,
                                                 .q = parts.q,
                                                 .k = parts.k,
                                                 .v = parts.v,
                                                 .lse = acts.lse});
  if (grads.shared != nullptr) add_shared_gradient(pass, grads);
  if (c.qk_norm) {
    // Without a gain, the normalized values are the queries and keys themselves, so they are not stored
    // separately.
    const Heads normed = acts.qk_normed ? split_heads(c, acts.qk_normed) : Heads{parts.q, parts.k};
    const auto backward = [&](const TensorView& dx, const TensorView& y, const TensorView& rstd,
                              int64_t n_head, int gain) {
      pass.ctx.kernels.qk_norm_backward(pass.ctx, {.dx = dx,
                                                   .y = y,
                                                   .rstd = rstd,
                                                   .n_head = n_head,
                                                   .head_dim = c.head_dim,
                                                   .gain = pass.optional_weight(gain),
                                                   .dgain = pass.grad(gain),
                                                   .accumulate = pass.accumulate});
      pass.gradient_ready(gain);
    };
    backward(dparts.q, normed.q, acts.q_rstd, c.n_head, q_gain_);
    if (c.owns_kv()) backward(dparts.k, normed.k, acts.k_rstd, c.n_kv_head, k_gain_);
  }
  if (c.rope) rotate(pass, dparts.qk, -static_cast<int>(c.rope->sign));
  qkv_.backward(pass, in, grads.dqkv, din, accumulate_din);
}

}  // namespace gpt
