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

InferenceTypes inference_types(DType weights) {
  if (weights == DType::f32 || weights == DType::f64) return {weights, weights};
  if (weights == DType::f16) return {DType::f32, DType::f16};
  return {DType::bf16, DType::bf16};
}

Inference::Inference(const Model& model, ThreadPool& pool, const KernelTable& kernels, Options options)
    : model_(model), pool_(pool), kernels_(kernels), options_(options), planner_(options.dtype) {
  const ModelConfig& c = model.config;
  if (options.slide && c.position != Position::rope) {
    fail_usage(
        "a sliding window needs rotary positions, this model has learned ones; use crop or stop instead");
  }
  options_.max_rows = std::max<int64_t>(options_.max_rows, options_.slots);
  const int64_t capacity = options_.capacity > 0 ? std::min(options_.capacity, c.n_ctx) : c.n_ctx;
  if (options_.slots > 0) {
    cache_ = KvCache(c, {.slots = options_.slots,
                         .capacity = capacity,
                         .tokens = options_.cache_tokens,
                         .dtype = options_.kv_dtype.value_or(options_.dtype)});
  }
  plan();
}

void Inference::plan() {
  const ModelConfig& c = model_.config;
  const int64_t rows = options_.max_rows;
  planner_.reserve(residual_, "residual stream", {rows, c.n_embd}, planner_.wide());
  embedding_.plan(planner_, c, rows, false);
  plan_block_saved(planner_, acts_, c, rows, false);
  plan_block_scratch(planner_, acts_, c, rows);
  plan_head(planner_, head_, c, rows, false);
  arena_ = planner_.commit("inference");
  acts_.x_in = acts_.x_out = head_.x = residual_;
  const AttentionShape shape{
      .n_head = c.n_head, .n_kv_head = c.n_kv_head, .head_dim = c.head_dim, .scale = 1};
  ScratchNeed need = attention_scratch(shape, rows, std::max(cache_.capacity(), rows) + KvCache::kBlock,
                                       false, options_.dtype);
  const int64_t widest = std::max({c.qkv_dim(), 2 * c.d_ff, c.n_embd, c.vocab_size});
  // Where a matrix has no packed form, its product is computed in another type; files may have blocks.
  for (DType t : {options_.weights.value_or(options_.dtype), options_.dtype, DType::f16, DType::q8_0})
    need = max_need(need, linear_scratch(rows, widest, std::max({c.n_embd, c.d_ff, c.q_dim()}), t));
  workspace_ = Workspace(need, pool_.size());
  const auto most = static_cast<size_t>(rows);
  ids_.reserve(most);
  positions_.reserve(most);
  cache_rows_.reserve(most);
  seqs_.reserve(static_cast<size_t>(cache_.slots()));
  parts_.reserve(static_cast<size_t>(cache_.slots()));
}

int64_t Inference::bytes() const {
  return planner_.bytes() + workspace_.bytes() + cache_.bytes();
}

void Inference::ensure_rope(int64_t positions) {
  const ModelConfig& c = model_.config;
  if (c.position != Position::rope || positions <= rope_.positions()) return;
  rope_ = RopeTable(c, std::max({positions, 2 * rope_.positions(), std::min<int64_t>(c.n_ctx, 4096)}),
                    planner_.wide());
}

// Within the capacity all that fit. Beyond it no more than the rest of the block, so that a sequence never
// holds more than its share of blocks.
int64_t Inference::room(int slot) const {
  const int64_t left = cache_.capacity() - cache_.length(slot);
  if (!options_.slide) return left;
  return std::max(left, KvCache::kBlock - cache_.length(slot) % KvCache::kBlock);
}

void Inference::check_ids(std::span<const int32_t> ids) const {
  for (const int32_t id : ids) {
    if (id < 0 || id >= model_.config.vocab_size) {
      fail("token id {} is out of range: the model knows 0 to {}", id, model_.config.vocab_size - 1);
    }
  }
}

void Inference::append(std::span<const Append> batch, const TensorView& logits) {
  for (const Append& a : batch)
    check_ids(a.ids);
  int64_t row = 0;
  for (size_t next = 0, at = 0; next < batch.size();) {
    // As many sequences as fit into one step, the last of them perhaps in part.
    parts_.clear();
    int64_t rows_left = options_.max_rows;
    while (next < batch.size() && rows_left > 0) {
      const Append& a = batch[next];
      const auto left = static_cast<int64_t>(a.ids.size() - at);
      const int64_t n = std::min({left, rows_left, room(a.slot)});
      if (n <= 0) fail("the sequence is longer than the context of {} tokens", cache_.capacity());
      parts_.push_back({a.slot, a.ids.subspan(at, static_cast<size_t>(n)), a.wanted && n == left});
      rows_left -= n;
      at += static_cast<size_t>(n);
      if (n < left) break;
      ++next;
      at = 0;
    }
    row += run(parts_, false, logits, row);
  }
}

void Inference::append_all(int slot, std::span<const int32_t> ids, const TensorView& logits) {
  check_ids(ids);
  for (size_t at = 0; at < ids.size();) {
    const int64_t n = std::min({static_cast<int64_t>(ids.size() - at), options_.max_rows, room(slot)});
    if (n <= 0) fail("the sequence is longer than the context of {} tokens", cache_.capacity());
    const Append part{slot, ids.subspan(at, static_cast<size_t>(n))};
    run({&part, 1}, true, logits, static_cast<int64_t>(at));
    at += static_cast<size_t>(n);
  }
}

// Nothing fails once tokens are counted: the cache must never hold tokens whose keys were not computed.
void Inference::prepare_rows(std::span<const Append> parts) {
  for (const Append& part : parts) {
    const auto n = static_cast<int64_t>(part.ids.size());
    ensure_rope(cache_.length(part.slot) + n);
    if (cache_.reserve(part.slot, n)) continue;
    fail("the key/value cache is full: {} of its {} tokens are in use; run fewer sequences at once",
         cache_.size() - cache_.available_blocks() * KvCache::kBlock, cache_.size());
  }
  ids_.clear();
  positions_.clear();
  cache_rows_.clear();
  seqs_.clear();
  for (const Append& part : parts) {
    const int64_t start = cache_.length(part.slot);
    const auto n = static_cast<int64_t>(part.ids.size());
    cache_.append(part.slot, part.ids);
    seqs_.push_back({.q_start = static_cast<int64_t>(ids_.size()),
                     .q_len = n,
                     .kv_len = start + n,
                     .blocks = cache_.blocks(part.slot)});
    ids_.insert(ids_.end(), part.ids.begin(), part.ids.end());
    for (int64_t t = start; t < start + n; ++t) {
      positions_.push_back(static_cast<int32_t>(t));
      cache_rows_.push_back(cache_.row(part.slot, t));
    }
  }
}

Pass Inference::make_pass(const ExecContext& ctx, int64_t rows) const {
  Pass pass{.ctx = ctx, .config = model_.config, .weights = model_.weights};
  pass.batch = {.rows = rows, .positions = positions_.data(), .seqs = seqs_};
  pass.compute = options_.weights.value_or(options_.dtype);
  pass.packed = model_.packed.get();
  pass.in_place = options_.in_place;
  pass.rope_cos = rope_.cos;
  pass.rope_sin = rope_.sin;
  pass.row_invariant = true;
  return pass;
}

// The rows that are wanted move to the front, in place: none of them moves back. Only queries and the
// residual stream are still read.
void Inference::keep_wanted(std::span<const Append> parts, const BlockActs& acts) {
  const ModelConfig& c = model_.config;
  const auto move = [](const TensorView& v, int64_t to, int64_t from) {
    const size_t row_bytes = static_cast<size_t>(v.cols()) * dtype_size(v.dtype);
    if (to != from) std::memcpy(v.row_range(to, 1).data, v.row_range(from, 1).data, row_bytes);
  };
  const TensorView queries = acts.attention.qkv.columns(0, c.q_dim());
  size_t n = 0;
  for (size_t i = 0; i < seqs_.size(); ++i) {
    if (!parts[i].wanted) continue;
    const auto to = static_cast<int64_t>(n);
    const int64_t last = seqs_[i].q_start + seqs_[i].q_len - 1;
    move(queries, to, last);
    move(acts.x_in, to, last);
    seqs_[n] = seqs_[i];
    seqs_[n].q_start = to;
    seqs_[n++].q_len = 1;
  }
  seqs_.resize(n);
}

// Leaves the rows that are wanted to the rest of the pass; false: there are none.
bool Inference::narrow(Pass& pass, std::span<const Append> parts, BlockActs& acts) {
  keep_wanted(parts, acts);
  if (seqs_.empty()) return false;
  pass.batch.rows = static_cast<int64_t>(seqs_.size());
  pass.batch.seqs = seqs_;
  acts = first_rows(acts_, pass.batch.rows);
  return true;
}

// Returns what the head reads: a row for every token, or for the wanted ones alone, and then the last block
// is finished for those only.
TensorView Inference::forward(Pass& pass, std::span<const Append> parts, bool every) {
  BlockActs acts = first_rows(acts_, pass.batch.rows);
  EmbeddingActs embedding = embedding_;
  if (embedding.raw) embedding.raw = embedding.raw.row_range(0, pass.batch.rows);
  model_.layers.embedding.forward(pass, embedding, acts.x_in);
  const bool post = model_.config.norm_position == NormPosition::post;
  TensorView x, branch;
  if (!every && model_.layers.blocks.empty() && !narrow(pass, parts, acts)) return {};
  for (const Block& block : model_.layers.blocks) {
    block.project(pass, acts, x, branch);
    if (!every && &block == &model_.layers.blocks.back() && !narrow(pass, parts, acts)) return {};
    block.finish(pass, acts);
    if (!post) {
      x = acts.x_mid;
      branch = acts.mlp_out;
    }
  }
  HeadActs head = head_;
  head.x = acts.x_out;
  if (head.normed) head.normed = head.normed.row_range(0, pass.batch.rows);
  model_.layers.head.forward_norm(pass, head, x, branch);
  return model_.config.final_norm ? head.normed : head.x;
}

// One step. Writes logits, of every token or of the last ones that are wanted, from `first_row` on, and
// returns how many rows.
int64_t Inference::run(std::span<const Append> parts, bool every, const TensorView& logits,
                       int64_t first_row) {
  prepare_rows(parts);
  const ExecContext ctx{pool_, kernels_, workspace_.scratch()};
  Pass pass = make_pass(ctx, static_cast<int64_t>(ids_.size()));
  pass.batch.ids = ids_.data();
  pass.cache = &cache_;
  pass.cache_rows = cache_rows_.data();
  const TensorView normed = forward(pass, parts, every);
  if (!normed) return 0;
  model_.layers.head.logits(pass, normed, logits.row_range(first_row, normed.rows()));
  return normed.rows();
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
  model_.layers.head.logits(pass, forward(pass, {}, true), trace.logits);
  return trace;
}

}  // namespace gpt
