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

// Stores the scores of a model on the held-out examples.
struct TaskScore {
  double loss = 0;             // the loss that training minimizes
  double criterion = 0;        // the value that selects the best model; lower is better
  std::string criterion_name;  // name of the criterion: "loss", "error"
  std::vector<std::pair<std::string, double>> metrics = {};  // additional metrics, named as in metrics.jsonl
  std::string text;                                          // text for the terminal: one or more lines
  std::string predictions = {};                              // CSV with a row for each held-out example
};

// Base class of fine-tuning tasks. A task provides the training samples and evaluates the model. The training
// samples are a function of the step, so a run can be resumed and batches can be split into micro-batches
// without changing the results.
class Task {
 public:
  virtual ~Task() = default;

  // The adapter that is trained with the model passed to the functions below. It applies to all rows. Null if
  // the run trains no adapter.
  const Adapter* adapter = nullptr;
  // The ranks of the run, which divide the work of the functions below.
  Communicator* processes = &single_process();
  // Returns true if the task can train and evaluate a model with an adapter.
  virtual bool takes_adapter() const { return false; }

  // Changes the config before the model is built, for example to add tokens to the vocabulary.
  virtual void adapt(ModelConfig& config) const { (void)config; }
  virtual const Objective& objective() const { return language_modelling(); }
  // Returns true if the loss is a cross-entropy of tokens.
  bool is_language_modelling() const { return &objective() == &language_modelling(); }
  virtual int64_t samples() const = 0;  // samples per epoch; each sample of a group is counted
  virtual int64_t n_ctx() const = 0;    // number of tokens per sample
  // Returns the number of samples in a group of samples that belong together. The number of samples in a
  // batch is a multiple of the group size.
  virtual int64_t group() const { return objective().group(); }
  // Sets the number of samples per step. Called once, before `begin`.
  virtual void set_batch_size(int64_t samples) = 0;
  // Prepares the samples of a step, which `fill` writes afterwards. Samples that the model generates are
  // sampled with its current weights. If a step halts the run, before_step is called again for this step.
  virtual void before_step(int64_t step, const Model& model, const Backend& backend) {
    (void)step, (void)model, (void)backend;
  }
  // Returns additional metrics of the newest step, named as in metrics.jsonl.
  virtual std::vector<std::pair<std::string, double>> step_metrics() const { return {}; }
  // Called once before the first step, with the weights of that step.
  virtual void begin(const Model& model, const Backend& backend, bool resumed) {
    (void)model, (void)backend, (void)resumed;
  }
  // Writes the samples [first, first + rows) of a step's batch.
  virtual void fill(int64_t step, int64_t first, int64_t rows, const TrainStep::Samples& samples) const = 0;
  // Returns true if there are held-out examples.
  virtual bool evaluates() const = 0;
  // Evaluates the model on the held-out examples. All ranks call it and receive the same score, which does
  // not depend on the number of ranks. `interrupted` is called between batches and must return the same value
  // on all ranks. Returns nothing if `interrupted` returns true.
  virtual std::optional<TaskScore> evaluate(const Model& model, const Backend& backend,
                                            const std::function<bool()>& interrupted) const = 0;
  // Writes the additional files of the model folder.
  virtual void write_files(const std::string& folder, const Model& model) const { (void)folder, (void)model; }

  virtual DataIdentity identity() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;  // tokenizer that is saved with the model
  virtual std::string describe() const = 0;        // returns lines for the terminal
};

// Refers to the config, the model and the tokenizer from which a task is created.
struct TaskSources {
  const TuneConfig& config;
  const LoadedModel& base;
  const ModelConfig& model;  // config of the base model
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string out;  // the run folder
};

// Creates the task that the config names. Throws invalid_argument for an unknown task. Throws Error naming
// the line for invalid examples.
std::unique_ptr<Task> make_task(const TaskSources& sources);

}  // namespace gpt
