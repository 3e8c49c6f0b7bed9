#include "run/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numbers>

#include "base/clock.h"
#include "base/file.h"
#include "base/ranges.h"
#include "data/eval_windows.h"
#include "eval/evaluate.h"
#include "io/checkpoint_dir.h"
#include "model/inference.h"
#include "model/kv_cache.h"
#include "model/model_counts.h"
#include "model/params.h"
#include "model/training_graph.h"
#include "model/weight_cache.h"
#include "report/next_step.h"
#include "run/evaluation.h"
#include "run/process_report.h"
#include "train/param_groups.h"
#include "train/schedule.h"
#include "train/step_history.h"
#include "train/train_step.h"

namespace gpt {
namespace {

constexpr int64_t kSampledTokens = 256;  // maximum tokens of a sample, including the prompt

// Estimate of the memory that is allocated after the plan is computed, for code pages that are loaded on
// first use, metric records and reports. Five runs with 0.06 to 0.8 million parameters used 2.6 to 3.5 MiB of
// such memory.
constexpr int64_t kLater = int64_t{3} << 20;

std::string fit_flags(const TrainConfig& from, const RunFit& fit) {
  std::string flags;
  const auto add = [&](const char* key, const std::string& value) {
    flags += (flags.empty() ? "" : " ") + flag_of(key) + (value.empty() ? "" : " " + value);
  };
  if (fit.dtype != from.dtype) add("dtype", "bf16");
  if (fit.micro_batch != from.micro_batch) add("micro_batch", std::to_string(fit.micro_batch));
  if (fit.recompute != from.recompute) add("recompute", "");
  return flags;
}

// Builds the parts of a run in the same way as the trainer does, so that they can be timed.
class Probe {
 public:
  // `rows` is the number of rows in a micro-batch. It may be smaller than in the run, but not larger.
  Probe(const PlanSubject& subject, const RunData& data, const Backend& backend, int64_t rows)
      : config_(subject.config.train),
        data_(data),
        backend_(backend),
        dtype_(tensor_dtype(config_.dtype)),
        model_(model_to_train(subject.config)),
        rows_(rows),
        weights_(model_.table, DType::f32, "weights", backend.device.get(), /*with_frozen=*/true),
        step_(model_, weights_, make_optimizer(config_, model_.table), backend, options(rows)),
        loader_(loader_of(data, config_, model_.config.n_ctx)),
        ids_(static_cast<size_t>(rows * model_.config.n_ctx)),
        targets_(ids_.size()) {
    model_.weights.assign(weights_.views().begin(), weights_.views().end());
    init_params(model_.table, weights_, static_cast<uint64_t>(config_.seed));
    start_.seed = static_cast<uint64_t>(config_.seed);
    start_.lr = config_.lr / 10;
    step_.set_state({.scaling = initial_loss_scale(dtype_)});
  }

  double micro_batch(bool accumulate) {
    return timed([&] {
      step_.begin(start_, batch_of(loader_, config_, start_.step, data_.document_end));
      step_.micro_batch(0, accumulate, true);
    });
  }
  double update() {
    return timed([&] {
      step_.finish_gradients();
      step_.update();
      step_.state();  // waits for the device
      ++start_.step;
    });
  }
  double evaluation(double seconds) {
    TrainingGraph graph(model_, rows_, model_.config.n_ctx, {.gradients = false, .dtype = dtype_}, backend_);
    const EvalBatches batches(data_.val, model_.config.n_ctx, start_.seed, 1, config_.batch_size);
    batches.fill(0, 0, rows_, ids_.data(), targets_.data());
    const TrainBatch batch{.ids = ids_.data(), .targets = targets_.data()};
    const auto start = Clock::now();
    std::vector<double> times = {timed([&] { graph.loss(batch); })};
    while (times.size() < 50 && seconds_since(start) < seconds)
      times.push_back(timed([&] { graph.loss(batch); }));
    return typical_seconds(times);
  }
  // Estimates the time of a complete sample. Samples tokens for about `seconds` and extrapolates to
  // kSampleTokens tokens.
  double sample(double seconds) {
    int tokens = 0;
    const auto start = Clock::now();
    const auto enough = [&] { return ++tokens > 1 && seconds_since(start) > seconds; };
    sample_text(model_, *data_.tokenizer, backend_, dtype_, start_.seed, 0, enough);
    return seconds_since(start) * kSampleTokens / std::max(1, tokens);
  }
  int64_t checkpoint_bytes() const { return 12 * model_.table.total(); }

 private:
  TrainStep::Options options(int64_t rows) const {
    TrainStep::Options options = step_options(config_, model_.table, model_.config.n_ctx);
    options.batch_size = options.micro_batch = rows;
    options.shards = 1;
    return options;
  }

  const TrainConfig& config_;
  const RunData& data_;
  Backend backend_;
  DType dtype_;
  Model model_;
  int64_t rows_;
  ParamBuffer weights_;
  TrainStep step_;
  BatchLoader loader_;
  std::vector<int32_t> ids_, targets_;  // one batch of an evaluation
  StepInputs start_;
};

// Saves a folder with one file in the same way as a checkpoint, then removes it. Returns the time in seconds.
double save_probe(const std::string& folder, int64_t bytes) {
  const std::string path = folder + "/.plan-" + std::to_string(Clock::now().time_since_epoch().count());
  const std::string block(static_cast<size_t>(std::min<int64_t>(bytes, 1 << 20)), 'x');
  const double seconds = timed([&] {
    DirectoryWriter writer(path);
    write_file_atomic(writer.path() + "/data", [&](FileWriter& file) {
      for (int64_t left = bytes; left > 0; left -= static_cast<int64_t>(block.size()))
        file.write(block);
    });
    writer.commit();
  });
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  return seconds;
}

void measure_saving(const Probe& probe, const std::string& folder, RunRates& rates) {
  constexpr int64_t kMost = int64_t{256} << 20;
  constexpr double kFiles = 2;  // the manifest is the second file
  rates.file = save_probe(folder, 1) / kFiles;
  const int64_t bytes = std::min(kMost, probe.checkpoint_bytes());
  rates.bytes_per_second =
      static_cast<double>(bytes) / std::max(1e-6, save_probe(folder, bytes) - kFiles * rates.file);
}

}  // namespace

std::vector<RunMemory::Part> RunMemory::parts() const {
  return {{"base", "program, text, tokens", base},  {"weights", "weights", weights},
          {"gradients", "gradients", gradients},    {"moments", "moments", moments},
          {"packed", "packed weights", packed},     {"activations", "activations", activations},
          {"evaluation", "evaluation", evaluation}, {"sampling", "sampling", sampling}};
}

int64_t RunMemory::total() const {
  return sum_of(parts(), &Part::bytes);
}

namespace {

// Returns the bytes of optimizer state on the rank that stores the most.
int64_t largest_state(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table,
                      const ShardMap& shard_map) {
  int64_t most = shard_map.empty() ? OptimizerState::bytes(buffers, table, DType::f32) : 0;
  for (const std::vector<ElementRange>& own : shard_map)
    most = std::max(most, OptimizerState::bytes(buffers, table, DType::f32, own));
  return most;
}

// With ZeRO 2, a rank stores its own gradient pieces and the pieces that it has not yet sent to other ranks.
// At any time, the gradients of only one layer are unsent. If the head and the embedding share a table, the
// gradient of this table is also unsent, because it is complete only at the end of the backward pass.
int64_t gradient_bytes(const PlanSubject& s, const ParamTable& table) {
  const int64_t all = 4 * param_buffer_elements(table);
  if (s.config.train.zero < 2 || s.processes == 1) return all;
  int64_t block = 0, embeddings = 0, head = 0;
  std::map<int64_t, int64_t> blocks;
  for (const ParamSpec& spec : table.specs()) {
    if (!spec.trainable) continue;
    const int64_t bytes = 4 * spec.size();
    if (spec.layer >= 0) {
      block = std::max(block, blocks[spec.layer] += bytes);
    } else {
      (spec.is_lookup_table || spec.role == Role::wte ? embeddings : head) += bytes;
    }
  }
  const int64_t unsent =
      s.config.model.tie_embeddings ? embeddings + block : std::max({embeddings, block, head});
  const int64_t own = all / s.processes, others = s.processes - 1;
  // To update whole matrices, a rank receives their gradient pieces from all ranks.
  const bool moves = require_optimizer(s.config.train.optimizer).divides == Divides::at_matrices;
  const Buckets buckets(all / 4, s.processes);
  const int64_t sent = 4 * buckets.in_flight() * buckets.bucket(0).size();
  const int64_t backward = (unsent + sent) * others / s.processes;
  return std::min(all, own + std::max(backward, moves ? own * others / s.processes : 0));
}

}  // namespace

int64_t largest_packed(const ModelConfig& c, const KernelTable& kernels, DType dtype) {
  int64_t largest[2] = {};
  for (const PackedForm& form :
       packed_forms(ParamTable(c), {}, kernels, {.compute = dtype, .gradients = true}))
    largest[form.transposed ? 1 : 0] = std::max(largest[form.transposed ? 1 : 0], form.bytes);
  return largest[0] + largest[1];
}

RunMemory plan_memory(const PlanSubject& s) {
  const ModelConfig& c = s.config.model;
  const TrainConfig& train = s.config.train;
  ParamTable table(c);
  freeze_parameters(train, table);
  const auto optimizer = make_optimizer(train, table);
  const DType dtype = tensor_dtype(train.dtype);
  RunMemory m;
  m.base = s.base_bytes + kLater;
  const int64_t trained = param_buffer_elements(table);
  m.gradients = gradient_bytes(s, table) +
                GradientSums::bytes(trained, DType::f32, message_dtype(train.reduce),
                                    shard_count(train, s.processes) / s.processes, s.processes, 0);
  const ShardMap shard_map = shard_map_of(train, table, s.processes);
  const bool divides_weights = train.zero > 2 && s.processes > 1;
  m.weights = (divides_weights ? ShardedWeights::bytes(table, c, shard_map) : 4 * trained) +
              4 * frozen_elements(table);
  m.moments = largest_state(optimizer->buffers(), table, shard_map) +
              Workspace::bytes(optimizer->scratch(*s.kernels, DType::f32), s.threads);
  m.packed = divides_weights ? largest_packed(c, *s.kernels, dtype)
                             : packed_bytes(table, {}, *s.kernels, {.compute = dtype, .gradients = true});
  m.activations = TrainingGraph::planned_bytes(
      c, train.micro_batch, c.n_ctx, {.recompute = train.recompute, .dtype = dtype}, *s.kernels, s.threads);
  if (s.evaluates) {
    m.evaluation = TrainingGraph::planned_bytes(c, train.micro_batch, c.n_ctx,
                                                {.gradients = false, .dtype = dtype}, *s.kernels, s.threads);
    // At the end of the run, the evaluation of the whole held-out text replaces the regular evaluation. It
    // may need more memory.
    const int64_t rows =
        std::clamp<int64_t>(s.val_tokens / c.n_ctx, 1, std::max<int64_t>(1, kEvalRows / c.n_ctx));
    m.evaluation = std::max(
        m.evaluation, TrainingGraph::planned_bytes(
                          c, rows, c.n_ctx,
                          {.gradients = false, .dtype = inference_types(dtype).activations, .weights = dtype},
                          *s.kernels, s.threads));
  }
  if (train.sample_every > 0) m.sampling = KvCache::bytes(c, std::min(c.n_ctx, kSampledTokens), DType::f32);
  return m;
}

double optimizer_flops(const RunConfig& config) {
  ParamTable table(config.model);
  freeze_parameters(config.train, table);
  return make_optimizer(config.train, table)->flops();
}

double optimizer_share(const RunConfig& config) {
  const ModelConfig& c = config.model;
  const double model =
      static_cast<double>(config.train.batch_size * c.n_ctx) * ModelCounts(c).training_flops(c.n_ctx);
  const double optimizer = optimizer_flops(config);
  return optimizer / (optimizer + model);
}

std::vector<RunFit> find_fits(const PlanSubject& subject, int64_t available) {
  const TrainConfig& train = subject.config.train;
  std::vector<TrainDType> dtypes = {train.dtype};
  if (train.dtype == TrainDType::fp32) dtypes.push_back(TrainDType::bf16);
  std::vector<RunFit> fits;
  for (const TrainDType dtype : dtypes) {
    for (const bool recompute : {false, true}) {
      if (train.recompute && !recompute) continue;
      PlanSubject changed = subject;
      changed.config.train.dtype = dtype;
      changed.config.train.recompute = recompute;
      for (int64_t micro = train.micro_batch; micro >= 1; --micro) {
        if (train.batch_size % micro != 0) continue;
        changed.config.train.micro_batch = micro;
        const int64_t bytes = plan_memory(changed).total();
        if (bytes > available) continue;
        fits.push_back({dtype, micro, recompute, bytes, ""});
        fits.back().flags = fit_flags(train, fits.back());
        break;
      }
    }
  }
  // Recomputation adds a third to the operations of a step, so it is only worthwhile if it allows a larger
  // micro-batch.
  const auto needless = [&](const RunFit& fit) {
    return fit.recompute && std::ranges::any_of(fits, [&](const RunFit& other) {
             return !other.recompute && other.dtype == fit.dtype && other.micro_batch >= fit.micro_batch;
           });
  };
  std::vector<RunFit> kept;
  std::ranges::copy_if(fits, std::back_inserter(kept), [&](const RunFit& fit) { return !needless(fit); });
  return kept;
}

double typical_seconds(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

double relative_spread(std::vector<double> seconds) {
  // Ratio of the standard deviation to the median absolute deviation of a normal distribution.
  constexpr double kNormal = 1.4826;
  const double typical = typical_seconds(seconds);
  for (double& x : seconds)
    x = std::abs(x - typical);
  return typical > 0 ? kNormal * typical_seconds(std::move(seconds)) / typical : 0;
}

namespace {

// Returns the computation time of a step on one rank, without messages.
double step_computation(const PlanSubject& s, const RunRates& r) {
  const TrainConfig& c = s.config.train;
  const int64_t count = c.batch_size / c.micro_batch / s.processes;
  const auto micro_batches = static_cast<double>(count);
  return r.micro_batch + (micro_batches - 1) * r.accumulated + r.update;
}

// Returns the expected maximum of n standard normal values (Cramer 1946, section 28.6). The approximation is
// 0.2 too high for n = 2 and 0.1 too high for n = 8.
double largest_of(int n) {
  const double u = std::sqrt(2 * std::log(n));
  return u - (std::log(std::log(n)) + std::log(4 * std::numbers::pi)) / (2 * u) + std::numbers::egamma / u;
}

}  // namespace

// Gradients are sent during the backward pass of a shard's last micro-batch. In the last round, the gradient
// sums are sent during the same backward pass. With ZeRO, the weights are sent after the update.
ExchangePlan plan_exchange(const PlanSubject& s, const RunRates& r) {
  constexpr double kBackwardShare = 2.0 / 3;  // fraction of a micro-batch's time
  // Measured fraction of the backward pass that can overlap with messages (docs/scaling.md).
  constexpr double kHides = 0.65;
  constexpr double kMessageSeconds = 20e-6;  // latency of a message
  ExchangePlan plan;
  if (s.processes == 1) return plan;
  const TrainConfig& c = s.config.train;
  ParamTable table(s.config.model);
  freeze_parameters(c, table);
  const int64_t elements = param_buffer_elements(table);
  const SentBytes sent = sent_in_step(c, elements, s.processes);
  plan.sent_bytes = sent.total();
  const auto on_the_link = [&](int64_t bytes) {
    return static_cast<double>(bytes) / s.link_bytes_per_second;
  };
  const double messages =
      static_cast<double>(Buckets(elements, s.processes).count() * (s.processes - 1)) * kMessageSeconds;
  const double gradients = on_the_link(sent.gradients) + messages,
               results = on_the_link(sent.results) + messages, moved = on_the_link(sent.moved);
  const bool accumulates = c.micro_batch * shard_count(c, s.processes) < c.batch_size;
  const double hidden = kHides * kBackwardShare * (accumulates ? r.accumulated : r.micro_batch);
  const auto rounds = static_cast<double>(sent.rounds);
  const auto beyond = [](double message, double pass) { return std::max(0.0, message - pass); };
  plan.seconds = rounds * gradients + static_cast<double>(sent.times) * results + moved;
  if (c.zero > 2) {  // weights are gathered during both passes
    plan.exposed = rounds * (beyond(results, hidden / 2) + beyond(gradients + results, hidden));
  } else if (c.zero > 0) {
    plan.exposed = rounds * beyond(gradients, hidden) + results;
  } else {
    plan.exposed = (rounds - 1) * beyond(gradients, hidden) + beyond(gradients + results, hidden);
  }
  plan.exposed += moved;
  plan.waiting = r.spread * step_computation(s, r) * largest_of(s.processes);
  return plan;
}

RunTime plan_time(const PlanSubject& s, const RunRates& r, int64_t parameters) {
  constexpr double kFilesOfModel = 4, kFilesOfState = 6;
  const TrainConfig& c = s.config.train;
  const auto steps = static_cast<double>(planned_steps(c));
  const int64_t parts = c.batch_size / c.micro_batch / s.processes;
  const auto micro_batches = static_cast<double>(parts);
  RunTime t;
  const ExchangePlan exchange = plan_exchange(s, r);
  t.step = step_computation(s, r) + exchange.exposed + exchange.waiting;
  t.steps = steps * t.step + r.first;
  const auto due = [&](int64_t every) { return static_cast<double>(times_due(planned_steps(c), every)); };
  const auto weights = 4 * static_cast<double>(parameters);
  const auto save = [&](double bytes, double files) {
    return (r.bytes_per_second > 0 ? bytes / r.bytes_per_second : 0) + files * r.file;
  };
  if (s.evaluates) {
    const int64_t n = planned_steps(c);
    t.evaluation = static_cast<double>(evaluated_batches(c, n)) * micro_batches * r.evaluation;
    if (s.val_tokens > 1) {
      const int64_t n_ctx = s.config.model.n_ctx;
      const int64_t whole = whole_eval_tokens(s.val_tokens, n * c.batch_size * n_ctx);
      t.evaluation += static_cast<double>(whole) / static_cast<double>(c.micro_batch * n_ctx * s.processes) *
                      r.evaluation;
    }
    // Assumes that each evaluation finds a new best model, which is then saved.
    t.saving = static_cast<double>(evaluations(c, n)) * save(weights, kFilesOfModel);
  }
  t.sampling = due(c.sample_every) * r.sample;
  t.saving += std::max(1.0, due(c.save_every)) * save(3 * weights, kFilesOfState);
  t.setup = r.setup;
  return t;
}

int64_t measured_rows(const PlanSubject& subject, double seconds, double row_seconds) {
  // Number of passes over a micro-batch: one warm-up, two or more measured passes, and evaluation.
  constexpr double kPasses = 6;
  const double rows = seconds / (kPasses * std::max(row_seconds, 1e-9));
  const int64_t all = subject.config.train.micro_batch;
  return rows >= static_cast<double>(all) ? all : std::max<int64_t>(1, static_cast<int64_t>(rows));
}

RunRates measure_rates(const PlanSubject& subject, const RunData& data, const Backend& backend,
                       double seconds, int64_t rows, const std::string& folder) {
  RunRates rates;
  const TrainConfig& c = subject.config.train;
  rates.source =
      rows == c.micro_batch
          ? "parts of the run, measured in advance"
          : fmt::format("{} of the {} rows of a micro-batch, measured in advance", rows, c.micro_batch);
  const auto start = Clock::now();
  Probe probe(subject, data, backend, rows);
  rates.setup = seconds_since(start);
  const bool accumulates = c.micro_batch < c.batch_size;
  const double first_step = probe.micro_batch(false) + probe.update();
  std::vector<double> first, further, update;
  const auto begin = Clock::now();
  while (first.empty() || (first.size() < 1000 && seconds_since(begin) < seconds)) {
    first.push_back(probe.micro_batch(false));
    if (accumulates) further.push_back(probe.micro_batch(true));
    update.push_back(probe.update());
  }
  const double scale = static_cast<double>(c.micro_batch) / static_cast<double>(rows);
  rates.micro_batch = typical_seconds(first) * scale;
  rates.accumulated = typical_seconds(further) * scale;
  rates.update = typical_seconds(update);
  rates.spread = relative_spread(first);
  rates.first = std::max(0.0, first_step - typical_seconds(first) - rates.update);
  if (subject.evaluates) rates.evaluation = probe.evaluation(seconds / 4) * scale;
  if (c.sample_every > 0) rates.sample = probe.sample(seconds / 4);
  measure_saving(probe, folder, rates);
  return rates;
}

}  // namespace gpt
