#include "train/train_step.h"

#include <algorithm>
#include <exception>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/ranges.h"
#include "tensor/device.h"
#include "tensor/element.h"
#include "train/param_groups.h"

namespace gpt {

namespace {

GradientSums::Keeps what_is_kept(const TrainStep::Options& options) {
  if (options.shard_map.empty()) return GradientSums::Keeps::all;
  return options.divides_gradients ? GradientSums::Keeps::own_memory : GradientSums::Keeps::own;
}

}  // namespace

TrainStep::TrainStep(const Model& model, const ParamBuffer& weights, std::unique_ptr<Optimizer> optimizer,
                     const Backend& backend, const Options& options)
    : model_(model),
      weights_(weights),
      backend_(backend),
      options_(options),
      optimizer_(std::move(optimizer)),
      grads_(model.table, weights.dtype(), "gradients", backend.device.get()),
      optimizer_state_(optimizer_->buffers(), model.table, weights.dtype(), backend.device.get(),
                       own_ranges()),
      update_scratch_(optimizer_->scratch(backend.kernels, weights.dtype()), backend.pool.size(),
                      backend.device.get()),
      sharded_(options.divides_weights ? std::make_unique<ShardedWeights>(model, weights, options.shard_map,
                                                                          *options.communicator)
                                       : nullptr),
      graph_(model, options.micro_batch, options.n_ctx, options.graph, backend),
      device_state_(backend.device.get()),
      block_sums_(static_cast<size_t>((grads_.all().size() + kSumBlock - 1) / kSumBlock) * sizeof(double),
                  "sums of squares", backend.device.get()),
      samples_(options.batch_size / options.communicator->size()),
      ids_(static_cast<size_t>(samples_ * options.n_ctx)),
      targets_(ids_.size()),
      target_weights_(ids_.size()),
      starts_(ids_.size()),
      labels_(static_cast<size_t>(samples_)),
      sums_(model.table, grads_, options.shards / options.communicator->size(), what_is_kept(options),
            message_type(), *options.communicator, backend) {
  optimizer_->bind(optimizer_state_.slices(weights_, grads_), optimizer_state_);
  set_state({});
  GPT_ASSERT(options.shards > 0 && options.shards % options.communicator->size() == 0);
  GPT_ASSERT(options.batch_size % options.shards == 0);
  GPT_ASSERT(options.micro_batch > 0 && shard_samples() % options.micro_batch == 0);
  GPT_ASSERT(options.micro_batch % options.graph.objective->group() == 0);
}

TrainStep::~TrainStep() {
  try {
    backend_.device->synchronize();
  } catch (const Error&) {  // an op failed; an earlier wait has already reported the error
  }
}

// Returns the index, within the batch, of the first sample of the shard that this rank computes in a round.
int64_t TrainStep::first_of_round(int64_t round) const {
  return (round * options_.communicator->size() + options_.communicator->rank()) * shard_samples();
}

// Sums the values of all shards over all ranks, in the order of the shards. `own` has one value per shard of
// this rank.
double TrainStep::sum_of_shards(const std::vector<double>& own, const char* what) {
  double sum = 0;
  for (const double x : own) {
    for (const double y : gather_waiting(x, what))
      sum += y;
  }
  return sum;
}

std::vector<double> TrainStep::gather_waiting(double own, const char* what) {
  std::vector<double> all;
  waited_ += timed([&] { all = gather(*options_.communicator, own, what); });
  return all;
}

void TrainStep::set_state(const StepState& state) {
  state_ = state;
  is_stale_ = false;
  shared_ = device_state_.share({&state_, 1});
}

const StepState& TrainStep::state() const {
  if (is_stale_) device_state_.download({&state_, 1});
  is_stale_ = false;
  return state_;
}

TrainStep::Snapshot TrainStep::snapshot() {
  const size_t slot = next_slot_++ % kSnapshots;
  snapshots_[slot] = state_;  // the state of the newest step, if ops write to host memory
  device_state_.enqueue_download({&snapshots_[slot], 1});
  return {.slot = slot, .event = backend_.device->record()};
}

const StepState& TrainStep::read(const Snapshot& s) const {
  backend_.device->wait(s.event);
  return snapshots_[s.slot];
}

void TrainStep::begin(const StepInputs& start, const FillBatch& fill) {
  std::fill(target_weights_.begin(), target_weights_.end(), 1.0f);
  std::fill(starts_.begin(), starts_.end(), uint8_t{0});
  std::fill(labels_.begin(), labels_.end(), 0.0f);
  const int64_t rows = shard_samples();
  std::vector<double> weights;
  for (int64_t first = 0; first < samples_; first += rows) {
    const int64_t at = first * options_.n_ctx;
    fill(first_of_round(first / rows), rows,
         {ids_.data() + at, targets_.data() + at, target_weights_.data() + at, starts_.data() + at,
          labels_.data() + first});
    double& weight = weights.emplace_back(0);
    for (int64_t i = first; i < first + rows; i += options_.micro_batch)
      weight += options_.graph.objective->weight(batch(i), options_.micro_batch * options_.n_ctx);
  }
  const double weight = sum_of_shards(weights, "counting targets");
  losses_.clear();
  StepInputs inputs = start;
  inputs.clip_norm = options_.clip_norm;
  inputs.loss_weight = weight > 0 ? 1 / weight : 0;
  const ExecContext ctx = backend_.context();
  ctx.kernels.begin_step(ctx, {.inputs = inputs, .step = shared_});
  is_stale_ = true;
}

// Returns the micro-batch that starts at sample `first` of this rank. The result is valid until the next call
// of `batch`.
TrainBatch TrainStep::batch(int64_t first) {
  const int64_t at = first * options_.n_ctx, rows = options_.micro_batch * options_.n_ctx;
  TrainBatch batch{.ids = ids_.data() + at,
                   .targets = targets_.data() + at,
                   .weights = target_weights_.data() + at,
                   .labels = labels_.data() + first,
                   .first_sample = first_of_round(first / shard_samples()) + first % shard_samples()};
  documents_.split(options_.n_ctx,
                   std::span(starts_).subspan(static_cast<size_t>(at), static_cast<size_t>(rows)), batch);
  return batch;
}

void TrainStep::micro_batch(int64_t first, bool accumulate, bool completes) {
  const double before = waited_for_weights();
  graph_.forward_backward(batch(first), grads_, accumulate, shared_,
                          completes ? sums_.sending(first / shard_samples()) : GradReadyHook());
  waited_ += waited_for_weights() - before;
  if (completes) finish_shard(first / shard_samples());
}

// Moves the shard's loss out of the step state, so that the losses of shards are added in the same order as
// their gradients.
void TrainStep::finish_shard(int64_t round) {
  sums_.finish_round(round);
  if (options_.shards == 1) return;
  is_stale_ = true;
  StepState now = state();
  losses_.push_back(now.loss);
  now.loss = 0;
  if (round == options_.shards / options_.communicator->size() - 1)
    now.loss = sum_of_shards(losses_, "summing losses");
  set_state(now);
}

// Computes the gradient norm and the values that depend on it.
void TrainStep::finalize_grad_norm(bool clamped) {
  const ExecContext ctx = backend_.context();
  const auto blocks_in = [](int64_t elements) { return (elements + kSumBlock - 1) / kSumBlock; };
  const TensorView sums = block_sums_.view(0, DType::f64, Shape{blocks_in(grads_.all().size())});
  for (const ElementRange& range : summed()) {
    const TensorView part = sums.slice_cols(range.begin / kSumBlock, blocks_in(range.size()));
    ctx.kernels.sum_squares(
        ctx, {.x = grads_.range(range.begin, range.end), .block_sums = device_span<double>(part)});
  }
  if (is_sharded()) sums_.gather(sums, kSumBlock, sums_.shard_map(), "summing squared gradients");
  ctx.kernels.finalize_grad_norm(
      ctx, {.block_sums = device_span<double>(sums), .step = shared_, .clamped = clamped});
  is_stale_ = true;
}

// Returns the element ranges whose gradient sums this rank stores.
std::vector<ElementRange> TrainStep::summed() const {
  if (!is_sharded()) return {{0, grads_.all().size()}};
  std::vector<ElementRange> pieces = sums_.shard_map()[static_cast<size_t>(options_.communicator->rank())];
  std::erase_if(pieces, [](const ElementRange& piece) { return piece.size() == 0; });
  return pieces;
}

std::vector<ElementRange> TrainStep::own_ranges(int id) const {
  const int64_t at = sums_.layout().offset[static_cast<size_t>(id)], size = model_.table[id].size();
  std::vector<ElementRange> ranges;
  for (const ElementRange& range : summed()) {
    const ElementRange own = common(range, {at, at + size});
    if (own.size() > 0) ranges.push_back({own.begin - at, own.end - at});
  }
  return ranges;
}

std::vector<double> TrainStep::range_squares(std::span<const ElementRange> ranges) const {
  std::vector<double> sums(ranges.size());
  DeviceArray<double> device_sums(backend_.device.get());
  const ExecContext ctx = backend_.context();
  ctx.kernels.range_squares(
      ctx, {.x = grads_.all(), .ranges = ranges, .sums = device_sums.share(sums, Access::write)});
  device_sums.download(sums);
  return sums;
}

std::vector<UpdateSquares> TrainStep::last_update() const {
  return optimizer_->last_update(backend_.context(), shared_);
}

double TrainStep::sum_over_processes(double own) const {
  return is_sharded() ? sum_of(gather(*options_.communicator, own, "summing norms")) : own;
}

void TrainStep::finish_gradients() {
  finalize_grad_norm(false);
}

void TrainStep::compute_gradients(const StepInputs& inputs, const FillBatch& fill,
                                  const std::function<void()>& before_each) {
  begin(inputs, fill);
  for (int64_t first = 0; first < samples_; first += options_.micro_batch) {
    if (before_each) before_each();
    const int64_t in_shard = first % shard_samples();
    micro_batch(first, in_shard > 0, in_shard + options_.micro_batch == shard_samples());
  }
  finish_gradients();
}

StepState TrainStep::try_gradients(const StepInputs& inputs, const FillBatch& fill) {
  const StepState before = state();
  compute_gradients(inputs, fill);
  const StepState after = state();
  set_state(before);
  return after;
}

// If single gradient values are clamped, the norm for clipping is computed after clamping.
void TrainStep::update() {
  const ExecContext ctx = backend_.context();
  if (options_.clip_value > 0) {
    for (const ElementRange& range : summed())
      ctx.kernels.clamp(
          ctx, {.x = grads_.range(range.begin, range.end), .limit = options_.clip_value, .step = shared_});
    finalize_grad_norm(true);
  }
  if (is_sharded() && !is_skipped()) sums_.move_to(options_.shard_map);
  optimizer_->update(backend_.context(update_scratch_.scratch()), shared_);
  if (options_.communicator->size() > 1 && is_skipped()) return;
  share_weights();
  if (options_.divides_gradients) sums_.drop_others();
  tell_changed();
}

// Called after each rank has updated its part of the weights.
void TrainStep::share_weights() {
  if (sharded_) return sharded_->drop();
  if (is_sharded()) sums_.gather(weights_.all(), 1, options_.shard_map, "gathering weights");
}

void TrainStep::tell_changed() const {
  for (int id = 0; id < model_.table.count(); ++id) {
    if (model_.table[id].trainable) model_.packed->weights_changed(id);
  }
}

std::vector<ElementRange> TrainStep::own_ranges() const {
  return is_sharded() ? options_.shard_map[static_cast<size_t>(options_.communicator->rank())]
                      : std::vector<ElementRange>();
}

void TrainStep::swap_average() {
  const ExecContext ctx = backend_.context();
  for (const ParamSlice& slice : optimizer_state_.slices(weights_, grads_))
    ctx.kernels.swap(ctx, {.a = slice.state.back(), .b = slice.weight});
  share_weights();
  tell_changed();
}

void TrainStep::require_finite_weights() const {
  std::string found;
  for (int id = 0; id < model_.table.count() && found.empty(); ++id) {
    if (grads_[id] && !all_finite(backend_.context(), weights_[id])) found = model_.table[id].name;
  }
  if (!any(*options_.communicator, !found.empty(), "checking for non-finite weights")) return;
  fail(
      "training stopped after step {}: {} contains NaN or infinite values; try a lower `lr`, or set "
      "`clip_norm`",
      state().step + 1, found.empty() ? "a weight" : found);
}

std::string TrainStep::first_nonfinite() {
  for (int64_t first = 0; first < samples_; first += options_.micro_batch) {
    const std::string found = graph_.first_nonfinite(batch(first), shared_);
    if (!found.empty()) return found;
  }
  for (int id = 0; id < model_.table.count(); ++id) {
    if (!grads_[id]) continue;  // frozen
    const int64_t at = sums_.layout().offset[static_cast<size_t>(id)];
    for (const ElementRange& own : own_ranges(id)) {
      if (!all_finite(backend_.context(), grads_.range(at + own.begin, at + own.end)))
        return "the gradient of " + model_.table[id].name;
    }
  }
  return "";
}

void require_not_halted(TrainStep& step) {
  if (!step.state().halted) return;
  const StepState s = step.state();
  const std::string tensor = step.first_nonfinite();
  fail(
      "training stopped at step {}: the loss is {}, the gradient norm {}; first non-finite tensor: {}; try a "
      "lower `lr`, or set `clip_norm`",
      s.step, format_number(s.loss), format_number(s.norm), tensor.empty() ? "the loss" : tensor);
}

AverageInModel::AverageInModel(Model& model, TrainStep& step, bool use)
    : model_(model), step_(step), before_(model.weights), exceptions_(std::uncaught_exceptions()) {
  const OptimizerState& state = step.optimizer_state();
  if (use && !state.is_whole()) {
    step.swap_average();
    swapped_ = true;
    return;
  }
  for (int id = 0; use && id < model.table.count(); ++id) {
    if (!model.table[id].trainable) continue;
    model.weights[static_cast<size_t>(id)] = state.of(state.count() - 1, id);
    model.packed->weights_changed(id);
  }
}

AverageInModel::~AverageInModel() noexcept(false) {
  // An error ends the run, and the other ranks may already have exited. In this case, the weights are
  // therefore not swapped back.
  if (swapped_ && std::uncaught_exceptions() == exceptions_) step_.swap_average();
  for (int id = 0; id < model_.table.count(); ++id) {
    TensorView& weight = model_.weights[static_cast<size_t>(id)];
    const TensorView& before = before_[static_cast<size_t>(id)];
    if (weight.data == before.data) continue;
    weight = before;
    model_.packed->weights_changed(id);
  }
}

ShardMap shard_map_of(const TrainConfig& c, const ParamTable& table, int processes) {
  if (c.zero == 0 || processes == 1) return {};
  return require_optimizer(c.optimizer).divides == Divides::at_matrices
             ? shard_by_matrix(table, processes)
             : shard_evenly(param_buffer_elements(table), processes);
}

TrainStep::Options step_options(const TrainConfig& c, const ParamTable& table, int64_t n_ctx,
                                Communicator& processes) {
  return {.batch_size = c.batch_size,
          .micro_batch = c.micro_batch,
          .shards = shard_count(c, processes.size()),
          .shard_map = shard_map_of(c, table, processes.size()),
          .divides_gradients = c.zero > 1 && processes.size() > 1,
          .divides_weights = c.zero > 2 && processes.size() > 1,
          .sends_bf16 = c.reduce == Reduce::fast_bf16,
          .n_ctx = n_ctx,
          .graph = {.recompute = c.recompute, .dtype = tensor_dtype(c.dtype)},
          .clip_norm = c.clip_norm,
          .clip_value = c.clip_value,
          .communicator = &processes};
}

std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& c, const ParamTable& table) {
  auto optimizer = require_optimizer(c.optimizer)
                       .make(table, {.beta1 = c.beta1,
                                     .beta2 = c.beta2,
                                     .eps = c.eps,
                                     .weight_decay = c.weight_decay,
                                     .lr_scale = lr_scales(c, table),
                                     .muon_momentum = c.muon_momentum,
                                     .muon_adjust = c.muon_adjust,
                                     .muon_compute = c.dtype == TrainDType::bf16 ? DType::bf16 : DType::f32,
                                     .steps = c.steps});
  return c.ema > 0 ? make_averaged(std::move(optimizer), c.ema) : std::move(optimizer);
}

int64_t TrainStep::bytes() const {
  const auto size = static_cast<int64_t>(dtype_size(weights_.dtype()));
  return param_buffer_elements(model_.table) * size +
         OptimizerState::bytes(optimizer_->buffers(), model_.table, weights_.dtype(),
                               optimizer_state_.own()) +
         update_scratch_.bytes() + graph_.bytes() +
         GradientSums::bytes(param_buffer_elements(model_.table), weights_.dtype(), message_type(),
                             options_.shards / options_.communicator->size(), options_.communicator->size(),
                             options_.communicator->rank());
}

}  // namespace gpt
