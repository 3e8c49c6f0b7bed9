#include "model/layers/attention.h"

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

struct Qkv {
  TensorView q, k, v, qk;
};

// The three parts of [N,(H+2Hkv)D], and q and k together.
Qkv split(const ModelConfig& c, const TensorView& qkv) {
  return {.q = qkv.slice_cols(0, c.q_dim()),
          .k = qkv.slice_cols(c.q_dim(), c.kv_dim()),
          .v = qkv.slice_cols(c.q_dim() + c.kv_dim(), c.kv_dim()),
          .qk = qkv.slice_cols(0, c.q_dim() + c.kv_dim())};
}

// How many keys a query sees; 0: all. A cache holds no more than its capacity.
int64_t window(const ForwardContext& pass) {
  const int64_t capacity = pass.cache ? pass.cache->capacity() : 0;
  const int64_t sliding = pass.config.sliding_window;
  return capacity > 0 && sliding > 0 ? std::min(capacity, sliding) : std::max(capacity, sliding);
}

}  // namespace

void AttentionActs::plan(Planner& planner, const ModelConfig& c) {
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
  for (const int64_t out : {c.qkv_dim(), c.q_dim(), c.kv_dim()})  // together, or one by one
    planner.add_linear_scratch(rows, out, c.n_embd);
  planner.add_linear_scratch(rows, c.n_embd, c.q_dim());
  planner.reserve(qkv, "qkv", {rows, c.qkv_dim()});
  planner.reserve(mixed, "attention output", {rows, c.q_dim()});
  if (!planner.is_training()) return;
  planner.reserve(lse, "attention log-sum", {rows, c.n_head}, planner.wide());
  if (!c.qk_norm) return;
  planner.reserve(q_rstd, "q rstd", {rows, c.n_head}, planner.wide());
  planner.reserve(k_rstd, "k rstd", {rows, c.n_kv_head}, planner.wide());
}

void AttentionGrads::plan(Planner& planner, const ModelConfig& c) {
  planner.reserve(dmixed, "d attention output", {planner.rows(), c.q_dim()});
  planner.reserve(dqkv, "d qkv", {planner.rows(), c.qkv_dim()});
}

SelfAttention::SelfAttention(const ModelConfig&, const ParamTable& table, int64_t layer)
    : layer_(layer),
      qkv_(table, {{table.find(Role::q_weight, layer), table.find(Role::q_bias, layer)},
                   {table.find(Role::k_weight, layer), table.find(Role::k_bias, layer)},
                   {table.find(Role::v_weight, layer), table.find(Role::v_bias, layer)}}),
      out_(table, {{table.find(Role::out_weight, layer), table.find(Role::out_bias, layer)}}) {}

AttentionShape SelfAttention::shape(const ForwardContext& pass) const {
  const ModelConfig& c = pass.config;
  return {.n_head = c.n_head,
          .n_kv_head = c.n_kv_head,
          .head_dim = c.head_dim,
          .scale = 1 / std::sqrt(static_cast<double>(c.head_dim)),
          .page_size = pass.cache ? KvCache::kBlock : 0,
          .window = window(pass),
          .dropout = pass.dropout(c.attn_dropout, RandomSite::dropout_attention, layer_),
          .dropout_stride = (c.n_ctx + 3) / 4 * 4,
          .max_q = pass.batch.sequences.max_q,
          .max_kv = pass.batch.sequences.max_kv};
}

void SelfAttention::rotate(const ForwardContext& pass, const TensorView& qk, int sign) const {
  const ModelConfig& c = pass.config;
  pass.ctx.kernels.rope(pass.ctx, {.x = qk,
                                   .n_head = c.n_head + c.n_kv_head,
                                   .head_dim = c.head_dim,
                                   .positions = pass.batch.positions,
                                   .cos = pass.rope_cos,
                                   .sin = pass.rope_sin,
                                   .sign = sign,
                                   .interleaved = c.rope_layout == RopeLayout::interleaved});
}

void SelfAttention::project(const ForwardContext& pass, AttentionActs& acts, const TensorView& in) const {
  const ModelConfig& c = pass.config;
  qkv_.forward(pass, in, acts.qkv);
  const Qkv parts = split(c, acts.qkv);
  pass.show(layer_, "qkv.projected", acts.qkv);
  if (c.position == Position::rope) rotate(pass, parts.qk, static_cast<int>(c.rope_sign));
  if (c.qk_norm) {
    pass.show(layer_, "qk.rotated", parts.qk);
    const KernelTable& k = pass.ctx.kernels;
    k.qk_norm_forward(pass.ctx, {c.norm_eps, parts.q, c.n_head, c.head_dim, acts.q_rstd});
    k.qk_norm_forward(pass.ctx, {c.norm_eps, parts.k, c.n_kv_head, c.head_dim, acts.k_rstd});
  }
  pass.show(layer_, "qkv", acts.qkv);
  if (pass.cache) store(pass, acts);
}

void SelfAttention::store(const ForwardContext& pass, const AttentionActs& acts) const {
  const Qkv parts = split(pass.config, acts.qkv);
  const KvCache& cache = *pass.cache;
  pass.ctx.kernels.scatter_rows(pass.ctx, {.dst = cache.keys(layer_),
                                           .src = parts.k,
                                           .rows = pass.cache_rows,
                                           .scale = cache.key_scales(layer_)});
  pass.ctx.kernels.scatter_rows(pass.ctx, {.dst = cache.values(layer_),
                                           .src = parts.v,
                                           .rows = pass.cache_rows,
                                           .scale = cache.value_scales(layer_)});
}

void SelfAttention::attend(const ForwardContext& pass, AttentionActs& acts, const TensorView& out) const {
  const Qkv parts = split(pass.config, acts.qkv);
  TensorView k = parts.k, v = parts.v, k_scale, v_scale;
  if (pass.cache) {
    k = pass.cache->keys(layer_);
    v = pass.cache->values(layer_);
    k_scale = pass.cache->key_scales(layer_);
    v_scale = pass.cache->value_scales(layer_);
  }
  pass.ctx.kernels.attention_forward(
      pass.ctx, {.shape = shape(pass),
                 .seqs = pass.batch.sequences.seqs,
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

void SelfAttention::backward(const ForwardContext& pass, const AttentionActs& acts, AttentionGrads& grads,
                             const TensorView& in, const TensorView& dout, const TensorView& din,
                             bool accumulate_din) const {
  const ModelConfig& c = pass.config;
  const Qkv parts = split(c, acts.qkv);
  const Qkv dparts = split(c, grads.dqkv);
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
  if (c.qk_norm) {
    const KernelTable& k = pass.ctx.kernels;
    k.qk_norm_backward(pass.ctx, {dparts.q, parts.q, acts.q_rstd, c.n_head, c.head_dim});
    k.qk_norm_backward(pass.ctx, {dparts.k, parts.k, acts.k_rstd, c.n_kv_head, c.head_dim});
  }
  if (c.position == Position::rope) rotate(pass, dparts.qk, -static_cast<int>(c.rope_sign));
  qkv_.backward(pass, in, grads.dqkv, din, accumulate_din);
}

}  // namespace gpt
