#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "base/file.h"
#include "data/eval_windows.h"
#include "io/checkpoint_dir.h"
#include "model/params.h"
#include "model/training_graph.h"
#include "train/loss_scale.h"
#include "train/plan.h"
#include "train/sample.h"
#include "train/train_step.h"

namespace gpt {
namespace {

// The parts of a run, each made as the trainer makes it.
class Probe {
 public:
  // rows: of a micro-batch, at most the run's.
  Probe(const PlanSubject& subject, const RunData& data, const Backend& backend, int64_t rows)
      : config_(subject.config.train),
        data_(data),
        backend_(backend),
        dtype_(tensor_dtype(config_.dtype)),
        model_(subject.config.model),
        rows_(rows),
        weights_(model_.table, DType::f32, "weights", backend.memory),
        step_(model_, weights_, make_optimizer(config_, model_.table), backend, options(rows)),
        loader_(data.sources, model_.config.n_ctx, static_cast<uint64_t>(config_.seed),
                config_.sampling == SamplingKind::epoch ? Sampling::epoch : Sampling::random),
        ids_(static_cast<size_t>(rows * model_.config.n_ctx)),
        targets_(ids_.size()) {
    model_.weights.assign(weights_.views().begin(), weights_.views().end());
    init_params(model_.table, weights_, static_cast<uint64_t>(config_.seed));
    start_.seed = static_cast<uint64_t>(config_.seed);
    start_.lr = config_.lr / 10;
    start_.loss_scale = dtype_ == DType::f16 ? LossScale::for_fp16().scale : 1;
  }

  double micro_batch(bool accumulate) {
    return timed([&] {
      step_.begin(start_, [&](int64_t first, int64_t rows, const TrainStep::Samples& s) {
        loader_.fill(start_.step, first, rows, config_.batch_size, s.ids, s.targets);
      });
      step_.micro_batch(0, accumulate, true);
    });
  }
  double update() {
    return timed([&] {
      step_.finish_gradients();
      step_.update();
      start_.updates = step_.state().updates;
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
  // Of a whole sample, from as many of its tokens as `seconds` allow.
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
    TrainStep::Options options = step_options(config_, model_.config.n_ctx, data_.document_end);
    options.batch_size = options.micro_batch = rows;
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
  std::vector<int32_t> ids_, targets_;  // of an evaluation
  StepState start_;
};

// Saves a folder with one file as checkpoints are, and removes it; returns the seconds.
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
  constexpr double kFiles = 2;  // the manifest is one too
  rates.file = save_probe(folder, 1) / kFiles;
  const int64_t bytes = std::min(kMost, probe.checkpoint_bytes());
  rates.bytes_per_second =
      static_cast<double>(bytes) / std::max(1e-6, save_probe(folder, bytes) - kFiles * rates.file);
}

}  // namespace

int64_t measured_rows(const PlanSubject& subject, double seconds, double row_seconds) {
  constexpr double kPasses = 6;  // over a micro-batch: a first one, two or more that count, evaluation
  const double rows = seconds / (kPasses * std::max(row_seconds, 1e-9));
  const int64_t all = subject.config.train.micro_batch;
  return rows >= static_cast<double>(all) ? all : std::max<int64_t>(1, static_cast<int64_t>(rows));
}

RunRates measure_rates(const PlanSubject& subject, const RunData& data, const Backend& backend,
                       double seconds, int64_t rows, const std::string& folder) {
  RunRates rates;
  const TrainConfig& c = subject.config.train;
  rates.source = rows == c.micro_batch ? "parts of the run, measured before it"
                                       : fmt::format("{} of the {} rows of a micro-batch, measured before it",
                                                     rows, c.micro_batch);
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
  rates.first = std::max(0.0, first_step - typical_seconds(first) - rates.update);
  if (subject.evaluates) rates.evaluation = probe.evaluation(seconds / 4) * scale;
  if (c.sample_every > 0) rates.sample = probe.sample(seconds / 4);
  measure_saving(probe, folder, rates);
  return rates;
}

}  // namespace gpt
