#include "model/training_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/element.h"

namespace gpt {

namespace {

// Scratch memory of a graph with `rows` tokens per pass whose products are in `compute`.
ScratchNeed scratch_need(const ModelConfig& c, int64_t rows, int64_t n_ctx, bool gradients, DType compute,
                         DType wide) {
  const AttentionShape shape{.n_head = c.n_head,
                             .n_kv_head = c.n_kv_head,
                             .head_dim = c.head_dim,
                             .scale = 1,
                             .dropout = {.p = c.attn_dropout}};
  ScratchNeed need = attention_scratch(shape, n_ctx, n_ctx, gradients, wide);
  need = max_need(need, norm_backward_scratch(rows, c.n_embd, wide));
  const int64_t gate = c.act == Act::swiglu ? 2 : 1;
  const auto add_linear = [&](int64_t n, int64_t out, int64_t in) {
    // Where a matrix has no packed form, its product is computed in another type; files may have blocks.
    for (DType t : {compute, wide, DType::f16, DType::q8_0})
      need = max_need(need, linear_scratch(n, out, in, t));
  };
  for (const auto& [out, in] : {std::pair{c.qkv_dim(), c.n_embd},
                                {c.q_dim(), c.n_embd},
                                {c.kv_dim(), c.n_embd},
                                {c.n_embd, c.q_dim()},
                                {gate * c.d_ff, c.n_embd},
                                {c.d_ff, c.n_embd},
                                {c.n_embd, c.d_ff}}) {
    add_linear(rows, out, in);
  }
  add_linear(Head::chunk_rows(c, rows), c.vocab_size, c.n_embd);
  return need;
}

int64_t scratch_bytes(const ScratchNeed& need, int threads) {
  const auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  return aligned(need.shared) + aligned(need.per_thread) * threads;
}

}  // namespace

TrainingGraph::TrainingGraph(const Model& model, int64_t batch, int64_t n_ctx, Options options, int threads)
    : model_(model),
      batch_(batch),
      n_ctx_(n_ctx),
      rows_(batch * n_ctx),
      options_(options),
      planner_(options.dtype) {
  for (int64_t b = 0; b < batch; ++b) {
    seqs_.push_back({.q_start = b * n_ctx, .q_len = n_ctx, .kv_len = n_ctx, .kv_start = b * n_ctx});
    for (int64_t t = 0; t < n_ctx; ++t)
      positions_.push_back(static_cast<int32_t>(t));
  }
  losses_.resize(static_cast<size_t>(rows_));
  if (model.config.position == Position::rope) rope_ = RopeTable(model.config, n_ctx, planner_.wide());
  plan();
  workspace_ = Workspace(
      scratch_need(model.config, rows_, n_ctx, options.gradients, compute(), planner_.wide()), threads);
}

void TrainingGraph::plan() {
  const ModelConfig& c = model_.config;
  const Shape stream{rows_, c.n_embd};
  embedding_.plan(planner_, c, rows_, options_.gradients);
  plan_blocks();
  plan_head(planner_, head_, c, rows_, true);
  if (options_.gradients) {
    planner_.reserve(dx_, "d residual", stream, planner_.wide());
    if (c.n_layer > 0) plan_block_grads(planner_, block_grads_, c, rows_);
  }
  arena_ = planner_.commit("activations");
  head_.x = residual_.back();
  for (int64_t layer = 0; layer < c.n_layer && acts_.size() > 1; ++layer) {
    acts_[static_cast<size_t>(layer)].attention_out = acts_[0].attention_out;
    acts_[static_cast<size_t>(layer)].mlp_out = acts_[0].mlp_out;
  }
}

namespace {

// How many blocks have their activations in memory at a time.
int64_t kept_blocks(const ModelConfig& c, const TrainingGraph::Options& options) {
  return options.gradients && !options.recompute ? c.n_layer : std::min<int64_t>(c.n_layer, 1);
}

}  // namespace

// With gradients every block's input has its own place; the rest of a block has, unless recomputed.
void TrainingGraph::plan_blocks() {
  const ModelConfig& c = model_.config;
  const auto n_layer = static_cast<size_t>(c.n_layer);
  residual_.resize(n_layer + 1);
  const size_t streams = options_.gradients ? n_layer + 1 : 1;
  for (size_t i = 0; i < streams; ++i)
    planner_.reserve(residual_[i], "residual stream", {rows_, c.n_embd}, planner_.wide());
  acts_.resize(static_cast<size_t>(kept_blocks(c, options_)));
  for (BlockActs& acts : acts_)
    plan_block_saved(planner_, acts, c, rows_, options_.gradients);
  if (!acts_.empty()) plan_block_scratch(planner_, acts_[0], c, rows_);
}

int64_t TrainingGraph::planned_activations(const ModelConfig& c, int64_t batch, int64_t n_ctx,
                                           Options options) {
  const int64_t rows = batch * n_ctx;
  Planner planner(options.dtype);
  EmbeddingActs embedding;
  embedding.plan(planner, c, rows, options.gradients);
  TensorView view;
  for (int64_t i = 0; i < (options.gradients ? c.n_layer + 1 : 1); ++i)
    planner.reserve(view, "residual stream", {rows, c.n_embd}, planner.wide());
  BlockActs acts;
  for (int64_t i = 0; i < kept_blocks(c, options); ++i)
    plan_block_saved(planner, acts, c, rows, options.gradients);
  if (c.n_layer > 0) plan_block_scratch(planner, acts, c, rows);
  HeadActs head;
  plan_head(planner, head, c, rows, true);
  if (options.gradients) {
    planner.reserve(view, "d residual", {rows, c.n_embd}, planner.wide());
    BlockGrads grads;
    if (c.n_layer > 0) plan_block_grads(planner, grads, c, rows);
  }
  return planner.bytes();
}

int64_t TrainingGraph::planned_bytes(const ModelConfig& config, int64_t batch, int64_t n_ctx, Options options,
                                     int threads) {
  const DType wide = Planner(options.dtype).wide();
  const ScratchNeed need = scratch_need(config, batch * n_ctx, n_ctx, options.gradients,
                                        options.weights.value_or(options.dtype), wide);
  return planned_activations(config, batch, n_ctx, options) + scratch_bytes(need, threads);
}

Pass TrainingGraph::make_pass(const ExecContext& ctx, const TrainBatch& batch) const {
  Pass pass{.ctx = ctx, .config = model_.config, .weights = model_.weights};
  pass.batch = {.rows = rows_, .ids = batch.ids, .positions = positions_.data(), .seqs = seqs_};
  pass.compute = compute();
  pass.packed = model_.packed.get();
  pass.rope_cos = rope_.cos;
  pass.rope_sin = rope_.sin;
  pass.first_row = batch.first_sample * n_ctx_;
  return pass;
}

void TrainingGraph::forward(const Pass& pass) {
  const bool post = model_.config.norm_position == NormPosition::post;
  TensorView x, branch;
  model_.layers.embedding.forward(pass, embedding_, residual_[0]);
  for (size_t layer = 0; layer < model_.layers.blocks.size(); ++layer) {
    BlockActs& acts = acts_[acts_.size() > 1 ? layer : 0];
    acts.x_in = residual_[layer].data ? residual_[layer] : residual_[0];
    acts.x_out = residual_[layer + 1].data ? residual_[layer + 1] : residual_[0];
    model_.layers.blocks[layer].forward(pass, acts, x, branch);
    if (!post) {
      x = acts.x_mid;
      branch = acts.mlp_out;
    }
    if (layer + 1 == model_.layers.blocks.size()) head_.x = acts.x_out;
  }
  model_.layers.head.forward_norm(pass, head_, x, branch);
}

double TrainingGraph::sum_losses(const int32_t* targets) const {
  double sum = 0;
  for (size_t n = 0; n < losses_.size(); ++n)
    sum += targets[n] >= 0 ? losses_[n] : 0;
  return sum;
}

namespace {

bool all_finite(const TensorView& v) {
  for (int64_t r = 0; r < v.rows(); ++r) {
    for (int64_t c = 0; c < v.cols(); ++c) {
      if (!std::isfinite(element(v, r, c))) return false;
    }
  }
  return true;
}

}  // namespace

std::string TrainingGraph::first_nonfinite() const {
  const auto bad = [](const TensorView& v) { return v && !all_finite(v); };
  for (int id = 0; id < model_.table.count(); ++id) {
    if (bad(model_.weights[static_cast<size_t>(id)])) return model_.table[id].name;
  }
  for (size_t layer = 0; layer + 1 < residual_.size(); ++layer) {
    const std::string block = "blocks." + std::to_string(layer);
    if (bad(residual_[layer])) return "the input of " + block;
    if (acts_.size() == 1) continue;  // recomputed: only the inputs are there
    const BlockActs& a = acts_[layer];
    const std::pair<const char*, const TensorView*> parts[] = {
        {"norm1", &a.norm1_out}, {"attn.qkv", &a.attention.qkv}, {"attn", &a.attention.mixed},
        {"norm2", &a.norm2_out}, {"mlp.fc", &a.mlp.fc},          {"mlp.act", &a.mlp.hidden}};
    for (const auto& [name, view] : parts) {
      if (bad(*view)) return "the output of " + block + "." + name;
    }
  }
  if (bad(residual_.back()))
    return model_.config.n_layer > 0 ? "the output of the last block" : "the output of the embedding";
  return bad(head_.normed) ? "the output of the final norm" : "";
}

double TrainingGraph::loss(ThreadPool& pool, const KernelTable& kernels, const TrainBatch& batch) {
  const ExecContext ctx{pool, kernels, workspace_.scratch()};
  const Pass pass = make_pass(ctx, batch);
  forward(pass);
  model_.layers.head.loss(pass, head_, batch.targets, 0, losses_.data(), {});
  return sum_losses(batch.targets);
}

namespace {

// Norms and embeddings add to their gradients; linear layers overwrite theirs in the first micro-batch, and
// so does the head that of the embedding it is tied to.
bool adds_gradient(const Model& model, Role role) {
  switch (role) {
    case Role::wte:
      return !model.config.tie_embeddings;
    case Role::wpe:
    case Role::norm1_gain:
    case Role::norm1_bias:
    case Role::norm2_gain:
    case Role::norm2_bias:
    case Role::final_gain:
    case Role::final_bias:
      return true;
    default:
      return false;
  }
}

void clear_added(const Model& model, const ParamBuffer& grads) {
  for (int id = 0; id < model.table.count(); ++id) {
    const TensorView& g = grads[id];
    if (g && adds_gradient(model, model.table[id].role))
      std::memset(g.data, 0, static_cast<size_t>(g.size()) * dtype_size(g.dtype));
  }
}

}  // namespace

double TrainingGraph::forward_backward(ThreadPool& pool, const KernelTable& kernels, const TrainBatch& batch,
                                       const ParamBuffer& grads, bool accumulate, const StepParams& step) {
  GPT_ASSERT(options_.gradients);
  const ExecContext ctx{pool, kernels, workspace_.scratch()};
  Pass pass = make_pass(ctx, batch);
  pass.training = true;
  pass.seed = step.seed;
  pass.step = static_cast<uint64_t>(step.step);
  forward(pass);

  if (!accumulate) clear_added(model_, grads);
  pass.grads = grads.views();
  pass.accumulate_grads = accumulate;
  model_.layers.head.loss(pass, head_, batch.targets, batch.loss_scale, losses_.data(), dx_);
  model_.layers.head.backward_norm(pass, head_, dx_);
  for (size_t layer = model_.layers.blocks.size(); layer-- > 0;) {
    BlockActs& acts = acts_[acts_.size() > 1 ? layer : 0];
    acts.x_in = residual_[layer];
    acts.x_out = residual_[layer + 1];
    if (options_.recompute) model_.layers.blocks[layer].forward(pass, acts, {}, {});
    model_.layers.blocks[layer].backward(pass, acts, block_grads_, dx_);
  }
  model_.layers.embedding.backward(pass, embedding_, dx_);
  return sum_losses(batch.targets);
}

}  // namespace gpt
