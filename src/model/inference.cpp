#include "model/inference.h"

#include <algorithm>

#include "model/weight_cache.h"

namespace gpt {

InferenceTypes inference_types(DType weights) {
  if (weights == DType::f32 || weights == DType::f64) return {weights, weights};
  if (weights == DType::f16) return {DType::f32, DType::f16};
  return {DType::bf16, DType::bf16};
}

Inference::Inference(const Model& model, const Backend& backend, Options options)
    : model_(model),
      backend_(backend),
      options_(options),
      planner_({}, backend.kernels),
      device_ids_(backend.device.get()),
      device_positions_(backend.device.get()),
      device_pages_(backend.device.get()),
      device_cache_rows_(backend.device.get()),
      device_output_rows_(backend.device.get()),
      device_seqs_(backend.device.get()),
      device_output_seqs_(backend.device.get()) {
  const ModelConfig& c = model.config;
  for (const TensorView& weight : model.weights)
    GPT_ASSERT(weight.device == backend.view_device());
  if (options.slide && c.position != Position::rope) {
    fail_usage(
        "a sliding window requires rotary position embeddings, but this model has learned position "
        "embeddings; use crop or "
        "stop instead");
  }
  options_.max_rows = std::max<int64_t>(options_.max_rows, options_.slots);
  const int64_t capacity = options_.capacity > 0 ? std::min(options_.capacity, c.n_ctx) : c.n_ctx;
  if (options_.slots > 0) {
    cache_ = KvCache(c,
                     {.slots = options_.slots,
                      .capacity = capacity,
                      .tokens = options_.cache_tokens,
                      .dtype = options_.kv_dtype.value_or(options_.dtype),
                      .step = options_.max_rows},
                     backend.device.get());
  }
  plan();
  repack();
}

std::vector<TensorView> Inference::weights_as_stored(const Model& model, const KernelTable& kernels,
                                                     const Options& options) {
  const PackedUse use{.compute = options.weights.value_or(options.dtype), .in_place = options.in_place};
  std::vector<TensorView> list;
  for (const int id : stored_params(model.table, packed_forms(model.table, model.weights, kernels, use))) {
    const TensorView& weight = model.weights[static_cast<size_t>(id)];
    if (weight.rank == 2) list.push_back(weight);
  }
  return list;
}

bool Inference::repacks_after(int64_t rows) const {
  return !repacked_.empty() && model_.pages->waits_for(rows);
}

void Inference::repack() {
  if (options_.repack == Repack::never || model_.pages == nullptr) return;
  repacked_ = weights_as_stored(model_, backend_.kernels, options_);
  if (options_.repack == Repack::always) model_.pages->move_all(backend_.pool, repacked_, bytes());
}

PassShape Inference::shape(const Options& options, int64_t capacity) {
  return {.mode = PassMode::inference,
          .rows = options.max_rows,
          .max_q = options.max_rows,
          .max_kv = std::max(capacity, options.max_rows),
          .dtype = options.dtype,
          .compute = options.weights.value_or(options.dtype),
          .adapter_rank = options.adapter_rank};
}

void Inference::plan() {
  planner_ = Planner(shape(options_, cache_.capacity()), backend_.kernels);
  acts_.plan(planner_, model_.config, layer_configs(model_.config), false);
  arena_ = planner_.commit("inference", backend_.device.get());
  acts_.set_shared_views();
  workspace_ = Workspace(planner_.scratch(), backend_.pool.size(), backend_.device.get());
  const auto most = static_cast<size_t>(options_.max_rows);
  ids_.reserve(most);
  positions_.reserve(most);
  const size_t classes = cache_.classes();
  cache_rows_.reserve(most * classes);
  const auto slots = static_cast<size_t>(cache_.slots());
  seqs_.reserve(slots * classes);
  output_seqs_.reserve(slots * classes);
  output_rows_.reserve(most);
  slot_adapter_.resize(slots, -1);
  row_adapters_.reserve(slots);
  output_adapters_.reserve(slots);
  const size_t pages = slots * classes * static_cast<size_t>(KvCache::blocks_of_sequence(cache_.capacity()));
  pages_.reserve(pages);
  device_ids_.reserve(most);
  device_positions_.reserve(most);
  device_cache_rows_.reserve(most * classes);
  device_seqs_.reserve(slots * classes);
  device_output_seqs_.reserve(slots * classes);
  device_output_rows_.reserve(most);
  device_pages_.reserve(pages);
}

int64_t Inference::bytes() const {
  return planner_.bytes() + workspace_.bytes() + cache_.bytes() +
         rope_bytes(model_.config, options_, planner_);
}

int64_t Inference::planned_bytes(const ModelConfig& config, Options options, const KernelTable& kernels,
                                 int threads) {
  options.max_rows = std::max<int64_t>(options.max_rows, options.slots);
  const int64_t capacity = options.capacity > 0 ? std::min(options.capacity, config.n_ctx) : config.n_ctx;
  Planner planner(shape(options, capacity), kernels);
  Activations acts;
  acts.plan(planner, config, layer_configs(config), false);
  return planner.bytes() + Workspace::bytes(planner.scratch(), threads) +
         KvCache::bytes(config, {.slots = options.slots,
                                 .capacity = capacity,
                                 .tokens = options.cache_tokens,
                                 .dtype = options.kv_dtype.value_or(options.dtype),
                                 .step = options.max_rows}) +
         rope_bytes(config, options, planner);
}

namespace {

// Returns the maximum number of rows in a rope table. The table has one row for each position below the
// capacity. With a sliding window, positions have no upper bound, so each token of a step needs an additional
// row.
int64_t most_rope_rows(const PassShape& shape, bool slide) {
  return shape.max_kv + (slide ? shape.rows : 0);
}

}  // namespace

int64_t Inference::rope_bytes(const ModelConfig& c, const Options& options, const Planner& planner) {
  int64_t bytes = 0;
  for (const RopeConfig& rope : distinct_ropes(layer_configs(c)))
    bytes += RopeTable::bytes(rope, most_rope_rows(planner.shape(), options.slide), planner.wide());
  return bytes;
}

void Inference::ensure_rope(int64_t positions) {
  if (model_.layers.ropes.empty()) return;
  const int64_t known = rope_.empty() ? 0 : rope_.front().positions();
  const int64_t most = most_rope_rows(planner_.shape(), options_.slide);
  const int64_t needed = positions <= planner_.shape().max_kv ? positions : most;
  if (needed <= known) return;
  const int64_t usual = std::max(2 * known, std::min<int64_t>(model_.config.n_ctx, 4096));
  rope_.clear();
  for (const RopeConfig& rope : model_.layers.ropes)
    rope_.emplace_back(rope, std::min(std::max(needed, usual), most), planner_.wide(), backend_.device.get());
}

// Returns the row of the rope tables for the next token of a step.
int32_t Inference::rope_row(int64_t position) {
  const int64_t kept = planner_.shape().max_kv;
  if (!options_.slide || position < kept) return static_cast<int32_t>(position);
  const int64_t row = kept + std::ssize(positions_);
  for (RopeTable& table : rope_)
    table.set_row(row, position);
  return static_cast<int32_t>(row);
}

// Below the capacity, a step can fill the sequence up to the capacity. Beyond the capacity (sliding window),
// a step can only fill the current cache page. The number of pages of a sequence is therefore limited.
int64_t Inference::room(int slot) const {
  const int64_t left = cache_.capacity() - cache_.length(slot);
  if (!options_.slide) return left;
  return std::max(left, KvCache::kBlock - cache_.length(slot) % KvCache::kBlock);
}

void Inference::check_step(std::span<const Append> batch) const {
  int64_t rows = 0;
  for (const auto& [slot, ids, wanted] : batch) {
    for (const int32_t id : ids) {
      if (id < 0 || id >= model_.config.vocab_size)
        fail("token id {} is out of range: expected 0 to {}", id, model_.config.vocab_size - 1);
    }
    const int64_t n = std::ssize(ids), most = room(slot);
    if (n > most && !options_.slide)
      fail("the sequence is longer than the context of {} tokens", cache_.capacity());
    if (n < 1 || n > most)
      fail("inference step: expected 1 to {} tokens for sequence {}, found {}", most, slot, n);
    rows += n;
  }
  if (rows > options_.max_rows)
    fail("inference step: expected at most {} tokens, found {}", options_.max_rows, rows);
}

void Inference::append(std::span<const Append> batch, const TensorView& logits) {
  run(batch, Output::logits, logits);
}

void Inference::append_hidden(std::span<const Append> batch, const TensorView& hidden) {
  run(batch, Output::hidden, hidden);
}

int Inference::add_adapter(std::shared_ptr<const Adapter> adapter) {
  GPT_ASSERT(adapter->rank <= options_.adapter_rank);
  if (free_adapters_.empty()) {
    if (adapters() == kMostAdapters)
      fail("too many adapters: expected at most {} at the same time, found one more", kMostAdapters);
    free_adapters_.push_back(adapters());
    adapters_.emplace_back();
  }
  const int number = free_adapters_.back();
  free_adapters_.pop_back();
  adapters_[static_cast<size_t>(number)] = std::move(adapter);
  return number;
}

void Inference::free_adapter(int adapter) {
  for (int slot = 0; slot < slots(); ++slot) {
    if (slot_adapter_[static_cast<size_t>(slot)] == adapter) reset(slot);
  }
  cache_.forget(root_of(adapter, kSalts - 1), root_of(adapter, 0));
  adapters_[static_cast<size_t>(adapter)] = nullptr;
  free_adapters_.push_back(adapter);
}

void Inference::reset(int slot, int adapter, uint64_t salt) {
  cache_.reset(slot, root_of(adapter, salt));
  slot_adapter_[static_cast<size_t>(slot)] = adapter;
}

void Inference::truncate(int slot, int64_t n) {
  if (cache_.truncate(slot, n)) return;
  fail(
      "a sequence of {} tokens cannot be truncated to {}: the KV cache no longer contains all tokens that "
      "the next token attends to",
      length(slot), n);
}

// The tokens are appended to the cache only after their keys are computed, because other sequences may reuse
// all tokens in the cache.
void Inference::prepare_rows(std::span<const Append> parts) {
  for (const Append& part : parts) {
    const auto n = static_cast<int64_t>(part.ids.size());
    ensure_rope(cache_.length(part.slot) + n);
    if (cache_.reserve(part.slot, n)) continue;
    fail("the KV cache is full: {} of its {} tokens are in use; run fewer sequences concurrently",
         cache_.size() - cache_.available_blocks() * KvCache::kBlock, cache_.size());
  }
  ids_.clear();
  positions_.clear();
  cache_rows_.clear();
  seqs_.clear();
  pages_.clear();
  row_adapters_.clear();
  for (const Append& part : parts) {
    const int64_t start = cache_.length(part.slot);
    const auto n = static_cast<int64_t>(part.ids.size());
    if (const Adapter* adapter = adapter_of(part.slot)) {
      const auto begin = static_cast<int64_t>(ids_.size());
      row_adapters_.push_back({begin, begin + n, adapter});
    }
    ids_.insert(ids_.end(), part.ids.begin(), part.ids.end());
    for (int64_t t = start; t < start + n; ++t)
      positions_.push_back(rope_row(t));
  }
  for (size_t window_class = 0; window_class < cache_.classes(); ++window_class)
    place_rows(parts, window_class);
}

// Adds the cache rows of the tokens in a step and the page tables of their sequences, for one window class.
void Inference::place_rows(std::span<const Append> parts, size_t window_class) {
  int64_t q_start = 0;
  for (const Append& part : parts) {
    const int64_t start = cache_.length(part.slot);
    const auto n = static_cast<int64_t>(part.ids.size());
    const int64_t first_page = cache_.first_page(part.slot, window_class);
    seqs_.push_back({.q_start = q_start,
                     .q_len = n,
                     .kv_len = start + n,
                     .first_page = static_cast<int64_t>(pages_.size()) - first_page});
    const std::span<const int32_t> pages = cache_.pages(part.slot, window_class);
    pages_.insert(pages_.end(), pages.begin(), pages.end());
    for (int64_t t = start; t < start + n; ++t)
      cache_rows_.push_back(cache_.row(part.slot, t, window_class));
    q_start += n;
  }
}

SequenceSpans Inference::sequences(DeviceSpan<const AttentionSeq> seqs, std::span<const AttentionSeq> host,
                                   DeviceSpan<const int32_t> pages) const {
  SequenceSpans spans{.seqs = seqs, .pages = pages, .classes = pages ? cache_.classes() : 1};
  for (const AttentionSeq& seq : host) {
    spans.max_q = std::max(spans.max_q, seq.q_len);
    spans.max_kv = std::max(spans.max_kv, seq.kv_len);
  }
  return spans;
}

// Creates a forward context for the tokens in ids_, positions_, seqs_ and pages_.
ForwardContext Inference::make_pass(const ExecContext& ctx, int64_t rows) {
  ForwardContext pass{.ctx = ctx,
                      .weights = {.views = model_.weights,
                                  .compute = planner_.shape().compute,
                                  .packed = model_.packed.get(),
                                  .in_place = options_.in_place,
                                  .source = model_.source,
                                  .packs_per_use = model_.source != nullptr},
                      .rope_tables = rope_,
                      .adapter_memory = acts_.adapter,
                      .row_invariant = true};
  pass.batch = {
      .rows = rows,
      .ids = device_ids_.upload(ids_),
      .positions = device_positions_.upload(positions_),
      .sequences = sequences(device_seqs_.upload(seqs_), seqs_,
                             pages_.empty() ? DeviceSpan<const int32_t>() : device_pages_.upload(pages_))};
  return pass;
}

void Inference::write_logits(const ForwardContext& pass, const TensorView& normed, const TensorView& logits) {
  if (logits.device == backend_.view_device()) return model_.layers.head.logits(pass, normed, logits);
  const TensorView own = logits_.grow(logits.dtype, logits.dims(), "logits", backend_.device.get());
  model_.layers.head.logits(pass, normed, own);
  copy_elements(own, logits);
}

// Selects the last `wanted` tokens of each part as output rows.
void Inference::choose_output_rows(std::span<const Append> parts) {
  output_rows_.clear();
  output_seqs_.clear();
  output_adapters_.clear();
  const auto wanted = [&](size_t i) {
    return std::clamp<int64_t>(parts[i].wanted, 0, std::ssize(parts[i].ids));
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t n = wanted(i), end = seqs_[i].q_start + seqs_[i].q_len, begin = std::ssize(output_rows_);
    if (const Adapter* adapter = n > 0 ? adapter_of(parts[i].slot) : nullptr)
      output_adapters_.push_back({begin, begin + n, adapter});
    for (int64_t row = end - n; row < end; ++row)
      output_rows_.push_back(row);
  }
  int64_t q_start = 0;
  for (size_t i = 0; i < seqs_.size(); ++i) {
    if (i % parts.size() == 0) q_start = 0;
    AttentionSeq seq = seqs_[i];
    seq.q_start = q_start;
    seq.q_len = wanted(i % parts.size());
    q_start += seq.q_len;
    if (seq.q_len > 0) output_seqs_.push_back(seq);
  }
}

void Inference::run(std::span<const Append> parts, Output output, const TensorView& to) {
  check_step(parts);
  if (parts.empty()) return;
  prepare_rows(parts);
  choose_output_rows(parts);
  const ExecContext ctx = backend_.context(workspace_.scratch());
  ForwardContext pass = make_pass(ctx, static_cast<int64_t>(ids_.size()));
  pass.kv = {&cache_, device_cache_rows_.upload(cache_rows_)};
  pass.batch.adapters = row_adapters_;
  const OutputRows outputs{
      device_output_rows_.upload(output_rows_),
      sequences(device_output_seqs_.upload(output_seqs_), output_seqs_, pass.batch.sequences.pages),
      output_adapters_};
  if (output_rows_.size() < ids_.size()) pass.batch.output_rows = &outputs;
  const TensorView normed = run_layers(pass, model_.layers, acts_);
  if (!repacked_.empty()) model_.pages->after_step(backend_.pool, repacked_, pass.batch.rows);
  if (pass.batch.output_rows != nullptr) pass.batch.adapters = output_adapters_;
  if (normed) write_output(pass, output, normed, to.slice_rows(0, normed.rows()));
  backend_.device->require_no_error();
  for (const Append& part : parts)
    cache_.append(part.slot, part.ids);
}

void Inference::write_output(const ForwardContext& pass, Output output, const TensorView& normed,
                             const TensorView& rows) {
  if (output == Output::hidden) {
    copy_elements(normed, rows);
  } else {
    write_logits(pass, normed, rows);
  }
}

void Inference::observe(std::span<const int32_t> ids, int64_t batch, Observer& observer,
                        const TensorView& logits) {
  const int64_t rows = std::ssize(ids), n_tokens = rows / batch;
  GPT_ASSERT(rows == batch * n_tokens && rows <= options_.max_rows && n_tokens <= config().n_ctx);
  ids_.assign(ids.begin(), ids.end());
  seqs_.clear();
  pages_.clear();
  positions_.clear();
  for (int64_t b = 0; b < batch; ++b) {
    seqs_.push_back(
        {.q_start = b * n_tokens, .q_len = n_tokens, .kv_len = n_tokens, .kv_start = b * n_tokens});
    for (int64_t t = 0; t < n_tokens; ++t)
      positions_.push_back(static_cast<int32_t>(t));
  }
  ensure_rope(n_tokens);
  const ExecContext ctx = backend_.context(workspace_.scratch());
  ForwardContext pass = make_pass(ctx, rows);
  pass.observer = &observer;
  write_logits(pass, run_layers(pass, model_.layers, acts_), logits);
}

void Inference::read_out(const TensorView& stream, const TensorView& logits) {
  const ExecContext ctx = backend_.context(workspace_.scratch());
  ids_.clear();
  positions_.clear();
  seqs_.clear();
  pages_.clear();
  const ForwardContext pass = make_pass(ctx, stream.rows());
  HeadActs head = acts_.head;
  head.x = stream;
  write_logits(pass, model_.layers.head.forward_norm(pass, head, {stream}), logits);
}

}  // namespace gpt
