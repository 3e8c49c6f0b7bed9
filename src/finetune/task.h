#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "distributed/communicator.h"
#include "model/objective.h"
#include "run/data_identity.h"
#include "text/tokenizer.h"
#include "train/train_step.h"

namespace gpt {

class LoadedModel;
struct TuneConfig;

// What held-out examples say of a model.
struct TaskScore {
  double loss = 0;                                           // what training lowers
  double criterion = 0;                                      // what tells the best model: lower is better
  std::string criterion_name;                                // "loss", "error"
  std::vector<std::pair<std::string, double>> metrics = {};  // under their names in metrics.jsonl
  std::string text;                                          // for people: a line, or more behind it
  std::string predictions = {};                              // CSV, a row for each held-out example
};

// What a fine-tuning run learns from and is judged by. Training samples are a function of the step, so that a
// run resumes, and can be split into micro-batches, without a change.
class Task {
 public:
  virtual ~Task() = default;

  // Of the model that all calls below are given: trained behind it, used on all rows; null: none.
  const Adapter* adapter = nullptr;
  // That share the run, and what is done for it below.
  Communicator* processes = &single_process();
  // Whether such a model can be evaluated.
  virtual bool takes_adapter() const { return false; }

  // What the model needs before it is made: more tokens, for instance.
  virtual void adapt(ModelConfig& config) const { (void)config; }
  virtual const Objective& objective() const { return language_modelling(); }
  // Whether the loss is a cross-entropy of tokens.
  bool is_language_modelling() const { return &objective() == &language_modelling(); }
  virtual int64_t samples() const = 0;  // of an epoch; groups of the objective count each of their samples
  virtual int64_t n_ctx() const = 0;    // tokens of a sample
  // Samples that belong together: a batch has a multiple of them.
  virtual int64_t group() const { return objective().group(); }
  // Fixes the samples of a step. Called once, before `begin`.
  virtual void set_batch_size(int64_t samples) = 0;
  // Prepares the samples of a step, which `fill` then writes; those that come from the model itself are made
  // from its weights as they are. A step that halts the run is prepared again.
  virtual void before_step(int64_t step, const Model& model, const Backend& backend) {
    (void)step, (void)model, (void)backend;
  }
  // What is known of the newest step beside its loss, under their names in metrics.jsonl.
  virtual std::vector<std::pair<std::string, double>> step_metrics() const { return {}; }
  // Called once, before the first step, with the weights of that step.
  virtual void begin(const Model& model, const Backend& backend, bool resumed) {
    (void)model, (void)backend, (void)resumed;
  }
  // Writes samples [first, first + rows) of the batch of a step.
  virtual void fill(int64_t step, int64_t first, int64_t rows, const TrainStep::Samples& samples) const = 0;
  // Whether examples are held out.
  virtual bool evaluates() const = 0;
  // Every process calls it and knows the score, which is that of one alone. Nothing where `interrupted`,
  // asked between batches and in agreement among the processes, says true.
  virtual std::optional<TaskScore> evaluate(const Model& model, const Backend& backend,
                                            const std::function<bool()>& interrupted) const = 0;
  // What stands beside the model in its folder.
  virtual void write_files(const std::string& folder, const Model& model) const { (void)folder, (void)model; }

  virtual DataIdentity identity() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;  // of the model as it will be saved
  virtual std::string describe() const = 0;        // for people, lines
};

// Where examples and model come from.
struct TaskSources {
  const TuneConfig& config;
  const LoadedModel& base;
  const ModelConfig& model;  // its config
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string out;  // the run's folder
};

// The task that the config names. Throws invalid_argument for an unknown one, Error for bad examples, with
// the line.
std::unique_ptr<Task> make_task(const TaskSources& sources);

}  // namespace gpt
