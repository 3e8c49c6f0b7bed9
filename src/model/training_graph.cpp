#include "model/training_graph.h"

#include <cmath>

#include "tensor/element.h"

namespace gpt {

PassShape TrainingGraph::shape(int64_t batch, int64_t n_ctx, const Options& options) {
  return {.mode = options.gradients ? PassMode::training : PassMode::loss,
          .rows = batch * n_ctx,
          .max_q = n_ctx,
          .max_kv = n_ctx,
          .dtype = options.dtype,
          .compute = options.weights.value_or(options.dtype)};
}

void TrainingGraph::Memory::plan(Planner& planner, const ModelConfig& c, bool recompute) {
  acts.plan(planner, c, recompute);
  if (!planner.is_training()) return;
  planner.reserve(dx, "d residual", {planner.rows(), c.n_embd}, planner.wide());
  if (c.n_layer > 0) block_grads.plan(planner, c);
}

TrainingGraph::TrainingGraph(const Model& model, int64_t batch, int64_t n_ctx, Options options, int threads)
    : model_(model),
      batch_(batch),
      n_ctx_(n_ctx),
      rows_(batch * n_ctx),
      options_(options),
      planner_(shape(batch, n_ctx, options)) {
  for (int64_t b = 0; b < batch; ++b) {
    seqs_.push_back({.q_start = b * n_ctx, .q_len = n_ctx, .kv_len = n_ctx, .kv_start = b * n_ctx});
    for (int64_t t = 0; t < n_ctx; ++t)
      positions_.push_back(static_cast<int32_t>(t));
  }
  losses_.resize(static_cast<size_t>(rows_));
  if (model.config.position == Position::rope) rope_ = RopeTable(model.config, n_ctx, planner_.wide());
  memory_.plan(planner_, model.config, options.recompute);
  arena_ = planner_.commit("activations");
  memory_.acts.set_shared_views();
  workspace_ = Workspace(planner_.scratch(), threads);
}

int64_t TrainingGraph::planned_activations(const ModelConfig& c, int64_t batch, int64_t n_ctx,
                                           Options options) {
  Planner planner(shape(batch, n_ctx, options));
  Memory().plan(planner, c, options.recompute);
  return planner.bytes();
}

int64_t TrainingGraph::planned_bytes(const ModelConfig& c, int64_t batch, int64_t n_ctx, Options options,
                                     int threads) {
  Planner planner(shape(batch, n_ctx, options));
  Memory().plan(planner, c, options.recompute);
  return planner.bytes() + Workspace::bytes(planner.scratch(), threads);
}

Pass TrainingGraph::make_pass(const ExecContext& ctx, const TrainBatch& batch) const {
  Pass pass{.ctx = ctx, .config = model_.config, .weights = model_.weights};
  pass.batch = {.rows = rows_, .ids = batch.ids, .positions = positions_.data(), .seqs = seqs_};
  pass.compute = planner_.shape().compute;
  pass.packed = model_.packed.get();
  pass.rope_cos = rope_.cos;
  pass.rope_sin = rope_.sin;
  return pass;
}

Pass TrainingGraph::make_training_pass(const ExecContext& ctx, const TrainBatch& batch,
                                       const StepParams& step) const {
  Pass pass = make_pass(ctx, batch);
  pass.training = true;
  pass.seed = step.seed;
  pass.step = static_cast<uint64_t>(step.step);
  pass.first_row = batch.first_sample * n_ctx_;
  return pass;
}

double TrainingGraph::sum_losses(const int32_t* targets) const {
  double sum = 0;
  for (size_t n = 0; n < losses_.size(); ++n)
    sum += targets[n] >= 0 ? losses_[n] : 0;
  return sum;
}

double TrainingGraph::loss(ThreadPool& pool, const KernelTable& kernels, const TrainBatch& batch) {
  const ExecContext ctx{pool, kernels, workspace_.scratch()};
  const Pass pass = make_pass(ctx, batch);
  const TensorView normed = run_layers(pass, model_.layers, memory_.acts);
  model_.layers.head.loss(pass, memory_.acts.head, normed, batch.targets, 0, losses_.data(), {});
  return sum_losses(batch.targets);
}

double TrainingGraph::forward_backward(ThreadPool& pool, const KernelTable& kernels, const TrainBatch& batch,
                                       const ParamBuffer& grads, bool accumulate, const StepParams& step) {
  GPT_ASSERT(options_.gradients);
  const ExecContext ctx{pool, kernels, workspace_.scratch()};
  Pass pass = make_training_pass(ctx, batch, step);
  const auto& [embedding, blocks, head] = model_.layers;
  Activations& acts = memory_.acts;
  const TensorView& dx = memory_.dx;
  const TensorView normed = run_layers(pass, model_.layers, acts);

  pass.grads = grads.views();
  pass.accumulate_grads = accumulate;
  head.loss(pass, acts.head, normed, batch.targets, batch.loss_scale, losses_.data(), dx);
  head.backward_norm(pass, acts.head, dx);
  for (size_t layer = blocks.size(); layer-- > 0;) {
    BlockActs a = acts.block(layer, rows_);
    if (options_.recompute) blocks[layer].forward(pass, a, {a.x_in});
    blocks[layer].backward(pass, a, memory_.block_grads, dx);
  }
  embedding.backward(pass, acts.embedding, dx);
  return sum_losses(batch.targets);
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

// Names the first result of a pass that is not finite.
class FirstNonfinite : public Observer {
 public:
  explicit FirstNonfinite(int64_t n_layer) : n_layer_(n_layer) {}

  void see(int64_t layer, std::string_view name, const TensorView& view) override {
    if (!found.empty()) return;
    const std::string what = description(layer, name);
    if (!what.empty() && !all_finite(view)) found = what;
  }

  std::string found;

 private:
  std::string description(int64_t layer, std::string_view name) const {
    if (name == "final_norm.in") return n_layer_ > 0 ? "the output of the last block" : "the output of the embedding";
    if (name == "final_norm.out") return "the output of the final norm";
    const std::string block = "blocks." + std::to_string(layer);
    if (name == "in") return "the input of " + block;
    static constexpr std::pair<std::string_view, const char*> kOutputs[] = {
        {"norm1.out", ".norm1"}, {"qkv", ".attn.qkv"}, {"heads", ".attn"},
        {"norm2.out", ".norm2"}, {"mlp.fc", ".mlp.fc"}, {"mlp.hidden", ".mlp.act"}};
    for (const auto& [seen, part] : kOutputs) {
      if (seen == name) return "the output of " + block + part;
    }
    return "";
  }

  int64_t n_layer_;
};

}  // namespace

std::string TrainingGraph::first_nonfinite(ThreadPool& pool, const KernelTable& kernels,
                                           const TrainBatch& batch, const StepParams& step) {
  for (int id = 0; id < model_.table.count(); ++id) {
    if (!all_finite(model_.weights[static_cast<size_t>(id)])) return model_.table[id].name;
  }
  const ExecContext ctx{pool, kernels, workspace_.scratch()};
  Pass pass = make_training_pass(ctx, batch, step);
  FirstNonfinite search(model_.config.n_layer);
  pass.observer = &search;
  run_layers(pass, model_.layers, memory_.acts);
  return search.found;
}

}  // namespace gpt
