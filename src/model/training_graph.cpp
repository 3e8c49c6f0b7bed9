#include "model/training_graph.h"

#include <algorithm>

#include "tensor/element.h"

namespace gpt {

PassShape TrainingGraph::shape(int64_t batch, int64_t n_ctx, const Options& options) {
  return {.mode = options.gradients ? PassMode::training : PassMode::loss,
          .rows = batch * n_ctx,
          .max_q = n_ctx,
          .max_kv = n_ctx,
          .dtype = options.dtype,
          .compute = options.weights.value_or(options.dtype),
          .adapter_rank = options.adapter != nullptr ? options.adapter->rank : 0,
          .adapter_dropout = options.adapter != nullptr && options.adapter->dropout > 0};
}

void TrainingGraph::PlannedMemory::plan(Planner& planner, const ModelConfig& c, const Options& options) {
  const std::vector<LayerConfig> layers = layer_configs(c);
  acts.plan(planner, c, layers, options.recompute);
  options.objective->plan(planner, c, objective);
  if (!planner.is_training()) return;
  const Shape residual{planner.rows(), c.n_embd};
  planner.reserve(d.x, "d residual", residual, planner.wide());
  if (std::ranges::any_of(layers, &LayerConfig::scales_input))
    planner.reserve(d.x0, "d embedding", residual, planner.wide());
  if (c.middle_layer >= 0) planner.reserve(d.middle, "d middle of the stream", residual, planner.wide());
  kv_grads.resize(layers.size());
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    kv_owner.push_back(gpt::kv_owner(layers, layer));
    if (layers[layer].kv_shared)
      planner.reserve(kv_grads[layer].dkv, "d shared k and v", {planner.rows(), 2 * layers[layer].kv_dim()});
  }
  const LayerKinds kinds(layers);
  grads_of = kinds.of_layer;
  block_grads.resize(kinds.configs.size());
  planner.reserve_alternatives(block_grads.size(),
                               [&](size_t i) { block_grads[i].plan(planner, kinds.configs[i]); });
}

BlockGrads TrainingGraph::PlannedMemory::grads(size_t layer) {
  BlockGrads grads = block_grads[grads_of[layer]];
  SharedKvGrad& shared = kv_grads[kv_owner[layer]];
  if (shared.dkv) grads.attention.shared = &shared;
  return grads;
}

TrainingGraph::TrainingGraph(const Model& model, int64_t batch, int64_t n_ctx, Options options,
                             const Backend& backend)
    : model_(model),
      backend_(backend),
      batch_(batch),
      n_ctx_(n_ctx),
      rows_(batch * n_ctx),
      options_(options),
      planner_(shape(batch, n_ctx, options), backend.kernels),
      adapter_rows_{0, rows_, options.adapter},
      losses_(static_cast<size_t>(rows_) * sizeof(double), "losses", backend.device.get()),
      device_ids_(backend.device.get()),
      device_targets_(backend.device.get()),
      device_positions_(backend.device.get()),
      device_weights_(backend.device.get()),
      device_labels_(backend.device.get()),
      device_seqs_(backend.device.get()),
      device_loss_(backend.device.get()) {
  for (int64_t b = 0; b < batch; ++b) {
    seqs_.push_back({.q_start = b * n_ctx, .q_len = n_ctx, .kv_len = n_ctx, .kv_start = b * n_ctx});
    for (int64_t t = 0; t < n_ctx; ++t)
      positions_.push_back(static_cast<int32_t>(t));
  }
  for (const RopeConfig& rope : model.layers.ropes)
    rope_.emplace_back(rope, n_ctx, planner_.wide(), backend.device.get());
  memory_.plan(planner_, model.config, options);
  arena_ = planner_.commit("activations", backend.device.get());
  memory_.acts.set_shared_views();
  workspace_ = Workspace(planner_.scratch(), backend.pool.size(), backend.device.get());
}

int64_t TrainingGraph::planned_activations(const ModelConfig& c, int64_t batch, int64_t n_ctx,
                                           Options options) {
  Planner planner(shape(batch, n_ctx, options),
                  kernel_table(Isa::ref));  // scratch memory is not counted, so the kernels do not matter
  PlannedMemory().plan(planner, c, options);
  return planner.bytes();
}

int64_t TrainingGraph::planned_bytes(const ModelConfig& c, int64_t batch, int64_t n_ctx, Options options,
                                     const KernelTable& kernels, int threads) {
  Planner planner(shape(batch, n_ctx, options), kernels);
  PlannedMemory().plan(planner, c, options);
  return planner.bytes() + Workspace::bytes(planner.scratch(), threads);
}

DeviceTargets TrainingGraph::upload_targets(const TrainBatch& batch) {
  const auto n = static_cast<size_t>(rows_);
  DeviceTargets t{.targets = device_targets_.upload({batch.targets, n})};
  if (batch.weights != nullptr) t.weights = device_weights_.upload({batch.weights, n});
  if (batch.labels != nullptr) t.labels = device_labels_.upload({batch.labels, static_cast<size_t>(batch_)});
  return t;
}

// Creates a forward context without dropout and gradients.
ForwardContext TrainingGraph::make_pass(const ExecContext& ctx, const TrainBatch& batch) {
  const auto n = static_cast<size_t>(rows_);
  const bool packed = batch.positions != nullptr;
  ForwardContext pass{.ctx = ctx,
                      .weights = {.views = model_.weights,
                                  .compute = planner_.shape().compute,
                                  .packed = model_.packed.get(),
                                  .source = model_.source,
                                  .packs_per_use = options_.packs_per_use || model_.source != nullptr},
                      .rope_tables = rope_,
                      .adapter_memory = memory_.acts.adapter,
                      .first_row = batch.first_sample * n_ctx_};
  pass.batch = {
      .rows = rows_,
      .ids = device_ids_.upload({batch.ids, n}),
      .positions = device_positions_.upload(packed ? std::span(batch.positions, n) : positions_),
      .sequences = {
          .seqs = device_seqs_.upload(packed ? batch.seqs : seqs_), .max_q = n_ctx_, .max_kv = n_ctx_}};
  if (options_.adapter != nullptr) pass.batch.adapters = {&adapter_rows_, 1};
  return pass;
}

ObjectiveCall TrainingGraph::call(const ForwardContext& pass, const DeviceTargets& targets,
                                  DeviceSpan<const StepState> step) {
  return {.pass = pass,
          .backward = nullptr,
          .layers = model_.layers,
          .targets = targets,
          .memory = memory_.objective,
          .first_param = model_.table.model_count(),
          .hidden = {},
          .dhidden = {},
          .step = step,
          .losses = losses_.view(0, DType::f64, Shape{rows_})};
}

double TrainingGraph::loss(const TrainBatch& batch) {
  const ExecContext ctx = backend_.context(workspace_.scratch());
  const DeviceTargets targets = upload_targets(batch);
  const ForwardContext pass = make_pass(ctx, batch);
  const auto forward = [&] { return run_layers(pass, model_.layers, memory_.acts); };
  ObjectiveCall objective = call(pass, targets, {});
  options_.objective->prepare(objective, forward);
  objective.hidden = forward();
  options_.objective->run(objective);
  double sum = 0;
  ctx.kernels.sum_losses(
      ctx, {.losses = device_span<double>(objective.losses), .sum = device_loss_.share({&sum, 1})});
  device_loss_.download({&sum, 1});
  return sum;
}

// Calls `ready` for the parameters of a layer whose gradients are final. Layer -1 means the embeddings, and
// n_layer means all parameters after the layers. For all other layers, this function only reports adapter
// parameters, because the modules of a layer report their own parameters.
void TrainingGraph::announce_layer(const GradReadyHook& ready, int64_t layer) const {
  if (!ready) return;
  const auto layer_of = [&](const ParamSpec& spec) {
    if (spec.layer >= 0) return spec.layer;
    return spec.role == Role::wte || spec.role == Role::wpe ? int64_t{-1} : model_.config.n_layer;
  };
  const std::vector<ParamSpec>& specs = model_.table.specs();
  const auto is_other = [&](const ParamSpec& spec) {
    return layer_of(spec) != layer || (spec.layer >= 0 && &spec - specs.data() < model_.table.model_count());
  };
  for (auto first = specs.begin(); first != specs.end();) {
    first = std::find_if_not(first, specs.end(), is_other);
    const auto end = std::find_if(first, specs.end(), is_other);
    if (first != end)
      ready(static_cast<int>(first - specs.begin()), static_cast<int>(end - specs.begin()) - 1,
            backend_.device->record());
    first = end;
  }
}

void TrainingGraph::forward_backward(const TrainBatch& batch, const ParamBuffer& grads, bool accumulate,
                                     DeviceSpan<StepState> step, const GradReadyHook& ready) {
  GPT_ASSERT(options_.gradients);
  const ExecContext ctx = backend_.context(workspace_.scratch());
  const DeviceTargets targets = upload_targets(batch);
  const ForwardContext plain = make_pass(ctx, batch);
  ForwardContext pass = plain;
  pass.step = step;
  const Layers& layers = model_.layers;
  Activations& acts = memory_.acts;
  ResidualGrads& d = memory_.d;
  ObjectiveCall objective = call(pass, targets, step);
  options_.objective->prepare(objective, [&] { return run_layers(plain, layers, acts); });
  objective.hidden = run_layers(pass, layers, acts);
  objective.dhidden = d.x;

  BackwardContext backward(pass);
  backward.grads = grads.views();
  if (options_.adapter != nullptr)
    backward.adapter_grads = backward.grads.last(static_cast<size_t>(options_.adapter->table.count()));
  backward.accumulate = accumulate;
  objective.backward = &backward;
  options_.objective->run(objective);
  ctx.kernels.sum_losses(ctx, {.losses = device_span<double>(objective.losses), .step = step});
  layers.head.backward_norm(backward, acts.head, d.x, d.middle);
  announce_layer(ready, model_.config.n_layer);
  backward.ready = ready ? &ready : nullptr;
  d.x0_written = false;
  for (SharedKvGrad& shared : memory_.kv_grads)
    shared.written = false;
  for (size_t layer = layers.blocks.size(); layer-- > 0;) {
    pass.begin_layer(static_cast<int64_t>(layer), static_cast<int64_t>(std::max<size_t>(layer, 1)) - 1);
    if (static_cast<int64_t>(layer) == layers.middle_layer)
      ctx.kernels.add(ctx, {.out = d.x, .a = d.x, .b = d.middle});
    BlockActs a = acts.block(layer, rows_);
    if (options_.recompute) layers.blocks[layer].recompute(pass, a);
    BlockGrads block_grads = memory_.grads(layer);
    layers.blocks[layer].backward(backward, a, block_grads, d);
    announce_layer(ready, static_cast<int64_t>(layer));
  }
  backward.ready = nullptr;
  if (d.x0_written) ctx.kernels.add(ctx, {.out = d.x, .a = d.x, .b = d.x0});
  layers.embedding.backward(backward, acts.embedding, d.x,
                            model_.config.tie_embeddings && options_.objective->uses_head());
  announce_layer(ready, -1);
}

namespace {

// Finds the first intermediate result of a forward pass that contains a NaN or infinity.
class FirstNonfinite : public Observer {
 public:
  FirstNonfinite(const ExecContext& ctx, int64_t n_layer) : ctx_(ctx), n_layer_(n_layer) {}

  void on_tensor(int64_t layer, std::string_view name, const TensorView& view) override {
    if (!found.empty()) return;
    const std::string what = description(layer, name);
    if (!what.empty() && !all_finite(ctx_, view)) found = what;
  }

  std::string found;

 private:
  std::string description(int64_t layer, std::string_view name) const {
    if (name == "final_norm.in")
      return n_layer_ > 0 ? "the output of the last layer" : "the output of the embedding";
    if (name == "final_norm.out") return "the output of the final norm";
    const std::string block = "blocks." + std::to_string(layer);
    if (name == "in") return "the input of " + block;
    static constexpr std::pair<std::string_view, const char*> kOutputs[] = {
        {"norm1.out", ".norm1"}, {"qkv", ".attn.qkv"},  {"heads", ".attn"},
        {"norm2.out", ".norm2"}, {"mlp.fc", ".mlp.fc"}, {"mlp.hidden", ".mlp.act"}};
    for (const auto& [seen, part] : kOutputs) {
      if (seen == name) return "the output of " + block + part;
    }
    return "";
  }

  const ExecContext& ctx_;
  int64_t n_layer_;
};

}  // namespace

std::string TrainingGraph::first_nonfinite(const TrainBatch& batch, DeviceSpan<const StepState> step) {
  for (int id = 0; id < model_.table.count(); ++id) {
    const TensorView& weight = model_.weights[static_cast<size_t>(id)];
    if (!is_quantized(weight.dtype) && !all_finite(backend_.context(), weight)) return model_.table[id].name;
  }
  if (model_.source != nullptr) return "";  // otherwise, all ranks would have to run this pass
  const ExecContext ctx = backend_.context(workspace_.scratch());
  ForwardContext pass = make_pass(ctx, batch);
  pass.step = step;
  FirstNonfinite search(ctx, model_.config.n_layer);
  pass.observer = &search;
  run_layers(pass, model_.layers, memory_.acts);
  return search.found;
}

}  // namespace gpt
