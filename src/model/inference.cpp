#include "model/inference.h"

#include <algorithm>
#include <cstring>

namespace gpt {
namespace {

// The first `rows` rows of every activation of a block.
BlockActs first_rows(const BlockActs& a, int64_t rows) {
  BlockActs b = a;
  for (TensorView* v : {&b.x_in, &b.x_out, &b.norm1_out, &b.norm2_out, &b.x_mid, &b.x_sum, &b.attention_out,
                        &b.mlp_out, &b.attention.qkv, &b.attention.mixed, &b.mlp.fc, &b.mlp.hidden}) {
    if (*v) *v = v->row_range(0, rows);
  }
  return b;
}

}  // namespace

Inference::Inference(const Model& model, ThreadPool& pool, const KernelTable& kernels, Options options)
    : model_(model), pool_(pool), kernels_(kernels), options_(options), planner_(options.dtype) {
  const ModelConfig& c = model.config;
  if (options.slide && c.position != Position::rope) {
    fail_usage(
        "a sliding window needs rotary positions, this model has learned ones; use crop or stop instead");
  }
  options_.max_rows = std::max<int64_t>(options_.max_rows, options_.slots);
  const int64_t capacity = options_.capacity > 0 ? std::min(options_.capacity, c.n_ctx) : c.n_ctx;
  if (options_.slots > 0) cache_ = KvCache(c, options_.slots, capacity, options_.dtype);
  plan();
}

void Inference::plan() {
  const ModelConfig& c = model_.config;
  const int64_t rows = options_.max_rows;
  planner_.reserve(residual_, "residual stream", {rows, c.n_embd});
  embedding_.plan(planner_, c, rows, false);
  plan_block_saved(planner_, acts_, c, rows, false);
  plan_block_scratch(planner_, acts_, c, rows);
  plan_head(planner_, head_, c, rows, false);
  planner_.reserve(picked_, "rows for the head", {rows, c.n_embd});
  arena_ = planner_.commit("inference");
  acts_.x_in = acts_.x_out = head_.x = residual_;
  const AttentionShape shape{
      .n_head = c.n_head, .n_kv_head = c.n_kv_head, .head_dim = c.head_dim, .scale = 1};
  ScratchNeed need = attention_scratch(shape, rows, std::max(cache_.capacity(), rows) + KvCache::kBlock,
                                       false, options_.dtype);
  const int64_t widest = std::max({c.qkv_dim(), 2 * c.d_ff, c.n_embd, c.vocab_size});
  // Where a matrix has no packed form, its product is computed in another type.
  for (DType t : {options_.weights.value_or(options_.dtype), options_.dtype, DType::f16})
    need = max_need(need, linear_scratch(rows, widest, std::max({c.n_embd, c.d_ff, c.q_dim()}), t));
  workspace_ = Workspace(need, pool_.size());
}

int64_t Inference::bytes() const {
  return planner_.bytes() + workspace_.bytes() +
         KvCache::bytes(model_.config, cache_.slots(), cache_.capacity(), options_.dtype);
}

void Inference::ensure_rope(int64_t positions) {
  const ModelConfig& c = model_.config;
  if (c.position != Position::rope || positions <= rope_.positions()) return;
  rope_ = RopeTable(c, std::max({positions, 2 * rope_.positions(), std::min<int64_t>(c.n_ctx, 4096)}),
                    options_.dtype);
}

// How many tokens the next step may append: within the context all that fit; beyond it no more than one
// block, since a longer step would overwrite keys that its first token still sees.
int64_t Inference::room(int slot) const {
  const int64_t left = cache_.capacity() - cache_.length(slot);
  if (options_.slide) return std::max(left, KvCache::kBlock);
  return left;
}

void Inference::append(std::span<const Append> batch, const TensorView& logits) {
  std::vector<size_t> done(batch.size(), 0);
  while (true) {
    // As much of every sequence as fits into one step, in order; the logits of its last token when it ends.
    std::vector<Append> parts;
    std::vector<int64_t> logits_rows;
    int64_t rows_left = options_.max_rows;
    for (size_t i = 0; i < batch.size(); ++i) {
      const auto left = static_cast<int64_t>(batch[i].ids.size() - done[i]);
      if (left == 0 || rows_left == 0) continue;
      const int64_t n = std::min({left, rows_left, room(batch[i].slot)});
      if (n <= 0) fail("the sequence is longer than the context of {} tokens", cache_.capacity());
      parts.push_back({batch[i].slot, batch[i].ids.subspan(done[i], static_cast<size_t>(n))});
      logits_rows.push_back(n == left ? static_cast<int64_t>(i) : -1);
      done[i] += static_cast<size_t>(n);
      rows_left -= n;
    }
    if (parts.empty()) return;
    run(parts, logits_rows, false, logits);
  }
}

void Inference::append_all(int slot, std::span<const int32_t> ids, const TensorView& logits) {
  for (size_t at = 0; at < ids.size();) {
    const int64_t n = std::min({static_cast<int64_t>(ids.size() - at), options_.max_rows, room(slot)});
    if (n <= 0) fail("the sequence is longer than the context of {} tokens", cache_.capacity());
    const Append part{slot, ids.subspan(at, static_cast<size_t>(n))};
    const int64_t row = static_cast<int64_t>(at);
    run({&part, 1}, {&row, 1}, true, logits);
    at += static_cast<size_t>(n);
  }
}

void Inference::prepare_rows(std::span<const Append> parts) {
  ids_.clear();
  positions_.clear();
  cache_rows_.clear();
  seqs_.clear();
  for (const Append& part : parts) {
    for (int32_t id : part.ids) {  // before the cache grows
      if (id < 0 || id >= model_.config.vocab_size) {
        fail("token id {} is out of range: the model knows 0 to {}", id, model_.config.vocab_size - 1);
      }
    }
    const int64_t start = cache_.length(part.slot);
    const auto n = static_cast<int64_t>(part.ids.size());
    cache_.extend(part.slot, n);
    seqs_.push_back({.q_start = static_cast<int64_t>(ids_.size()),
                     .q_len = n,
                     .kv_len = start + n,
                     .blocks = cache_.blocks(part.slot)});
    for (int64_t i = 0; i < n; ++i) {
      const int32_t id = part.ids[static_cast<size_t>(i)];
      ids_.push_back(id);
      positions_.push_back(static_cast<int32_t>(start + i));
      cache_rows_.push_back(cache_.row(part.slot, start + i));
    }
    ensure_rope(start + n);
  }
}

Pass Inference::make_pass(const ExecContext& ctx, int64_t rows) const {
  Pass pass{.ctx = ctx, .config = model_.config, .weights = model_.weights};
  pass.batch = {.rows = rows, .positions = positions_.data(), .seqs = seqs_};
  pass.compute = options_.weights.value_or(options_.dtype);
  pass.packed = model_.packed.get();
  pass.rope_cos = rope_.cos;
  pass.rope_sin = rope_.sin;
  pass.row_invariant = true;
  return pass;
}

void Inference::forward(Pass& pass, int64_t rows) {
  BlockActs acts = first_rows(acts_, rows);
  EmbeddingActs embedding = embedding_;
  if (embedding.raw) embedding.raw = embedding.raw.row_range(0, rows);
  model_.layers.embedding.forward(pass, embedding, acts.x_in);
  const bool post = model_.config.norm_position == NormPosition::post;
  TensorView x, branch;
  for (const Block& block : model_.layers.blocks) {
    block.forward(pass, acts, x, branch);
    if (!post) {
      x = acts.x_mid;
      branch = acts.mlp_out;
    }
  }
  HeadActs head = head_;
  head.x = acts.x_out;
  if (head.normed) head.normed = head.normed.row_range(0, rows);
  model_.layers.head.forward_norm(pass, head, x, branch);
}

void Inference::run(std::span<const Append> parts, std::span<const int64_t> logits_rows, bool every,
                    const TensorView& logits) {
  prepare_rows(parts);
  const auto rows = static_cast<int64_t>(ids_.size());
  const ExecContext ctx{pool_, kernels_, workspace_.scratch()};
  Pass pass = make_pass(ctx, rows);
  pass.batch.ids = ids_.data();
  pass.cache = &cache_;
  pass.cache_rows = cache_rows_.data();
  forward(pass, rows);
  const TensorView& normed = model_.config.final_norm ? head_.normed : head_.x;
  if (every) {
    model_.layers.head.logits(pass, normed.row_range(0, rows), logits.row_range(logits_rows[0], rows));
    return;
  }
  // The wanted rows side by side, so that the head is one product.
  int64_t n = 0;
  std::vector<int64_t> target;
  const size_t row_bytes = static_cast<size_t>(normed.cols()) * dtype_size(normed.dtype);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (logits_rows[i] < 0) continue;
    const int64_t last = seqs_[i].q_start + seqs_[i].q_len - 1;
    std::memcpy(picked_.row_range(n++, 1).data, normed.row_range(last, 1).data, row_bytes);
    target.push_back(logits_rows[i]);
  }
  // Finished sequences are consecutive rows of the caller's logits except when some are still being fed.
  for (int64_t from = 0; from < n;) {
    int64_t to = from + 1;
    while (to < n && target[static_cast<size_t>(to)] == target[static_cast<size_t>(to - 1)] + 1)
      ++to;
    model_.layers.head.logits(pass, picked_.row_range(from, to - from),
                              logits.row_range(target[static_cast<size_t>(from)], to - from));
    from = to;
  }
}

Inference::Trace Inference::trace(std::span<const int32_t> ids, int64_t batch, int64_t n_tokens) {
  const ModelConfig& c = model_.config;
  const int64_t rows = batch * n_tokens;
  GPT_ASSERT(rows == static_cast<int64_t>(ids.size()) && rows <= options_.max_rows && n_tokens <= c.n_ctx);
  Trace trace;
  const auto allocate = [&](Shape shape, const char* what) {
    trace.memory.emplace_back(static_cast<size_t>(checked_size(shape, what)) * dtype_size(options_.dtype),
                              what);
    return make_view(trace.memory.back().data(), options_.dtype, shape);
  };
  for (int64_t layer = 0; layer < c.n_layer; ++layer) {
    trace.attention.push_back(allocate({batch, c.n_head, n_tokens, n_tokens}, "attention weights"));
  }
  trace.logits = allocate({rows, c.vocab_size}, "logits");
  seqs_.clear();
  positions_.clear();
  for (int64_t b = 0; b < batch; ++b) {
    seqs_.push_back(
        {.q_start = b * n_tokens, .q_len = n_tokens, .kv_len = n_tokens, .kv_start = b * n_tokens});
    for (int64_t t = 0; t < n_tokens; ++t)
      positions_.push_back(static_cast<int32_t>(t));
  }
  ensure_rope(n_tokens);
  const ExecContext ctx{pool_, kernels_, workspace_.scratch()};
  Pass pass = make_pass(ctx, rows);
  pass.batch.ids = ids.data();
  pass.attention_weights = trace.attention;
  forward(pass, rows);
  const TensorView& normed = c.final_norm ? head_.normed : head_.x;
  model_.layers.head.logits(pass, normed.row_range(0, rows), trace.logits);
  return trace;
}

}  // namespace gpt
