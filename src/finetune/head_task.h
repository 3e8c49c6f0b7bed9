#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "finetune/classifier.h"
#include "finetune/head_objective.h"
#include "finetune/task.h"

namespace gpt {

struct TaskHead;

enum class LongExamples : uint8_t { cut, refuse };

// Options of a task with a head. The defaults are the settings of GPT-1.
struct HeadTaskOptions {
  TaskKind kind = TaskKind::classify;
  std::vector<std::string> data, val_data;  // files; without val_data, a part of `data` is held out
  double val_fraction = 0.1;                // 0: nothing is held out
  // Labels in the order of their classes; empty: the labels of the data.
  std::vector<std::string> labels = {};
  std::map<std::string, double> class_weights = {};  // weights of examples by label; 1 for other labels
  bool balanced = false;  // choose weights so that all labels have the same total weight
  double aux_weight = 0.5, head_dropout = 0.1;
  bool skip_bad = false;
  LongExamples long_examples = LongExamples::cut;
  int64_t max_length = 0;  // maximum tokens per row; 0: the model's context length
  uint64_t seed = 0;
};

// Implements classification, entailment, similarity and multiple choice as described in the GPT-1 paper.
class HeadTask : public Task {
 public:
  // Reads the data. `config` and `tokenizer` belong to the model before fine-tuning. Throws Error naming file
  // and line if the data is invalid, and invalid_argument if an option is invalid.
  HeadTask(const HeadTaskOptions& options, const ModelConfig& config,
           std::shared_ptr<const Tokenizer> tokenizer);

  // Starts training from `head` if it has the same task and labels. Otherwise a new head is created.
  void go_on_from(const TaskHead& head);

  // Enlarges the vocabulary if it does not include the three special tokens of the task.
  void adapt(ModelConfig& config) const override;
  const Objective& objective() const override { return *objective_; }
  int64_t samples() const override;
  void set_batch_size(int64_t samples) override { batch_size_ = samples; }
  int64_t n_ctx() const override { return n_ctx_; }
  void begin(const Model& model, const Backend& backend, bool resumed) override;
  void fill(int64_t step, int64_t first, int64_t rows, const TrainStep::Samples& samples) const override;
  bool evaluates() const override { return !val_.examples.empty(); }
  std::optional<TaskScore> evaluate(const Model& model, const Backend& backend,
                                    const std::function<bool()>& interrupted) const override;
  void write_files(const std::string& folder, const Model& model) const override;
  DataIdentity identity() const override;
  const Tokenizer& tokenizer() const override { return *tokenizer_; }  // includes the three special tokens
  std::string describe() const override;

  const HeadFacts& facts() const { return facts_; }

 private:
  // Stores the examples of one split, encoded as rows.
  struct Split {
    std::vector<EncodedExample> examples;
    std::vector<float> labels;
    std::vector<std::string> places;
    int64_t skipped = 0, cut = 0;
    std::string first_problem;
  };
  Split encode(ExampleSet set, const Tokenizer& tokenizer) const;
  std::vector<float> weights_of_labels() const;
  int64_t longest_row() const;
  void fill_row(const std::vector<int32_t>& row, double weight, int32_t* ids, int32_t* targets,
                float* weights) const;
  double example_weight(float label) const;
  double loss_of(const Outputs& outputs, float label) const;
  std::optional<std::vector<Outputs>> read_held_out(Classifier& classifier,
                                                    const std::function<bool()>& interrupted) const;
  void add_scores(const std::vector<Outputs>& outputs, TaskScore& score) const;
  std::string predictions_csv(const std::vector<Outputs>& outputs) const;

  HeadTaskOptions options_;
  HeadFacts facts_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<HeadObjective> objective_;
  Split train_, val_;
  std::vector<float> label_weights_;  // weight of each class; empty: all weights are 1
  int64_t n_ctx_ = 0, batch_size_ = 0;
  std::vector<float> first_head_;  // empty: a new head is initialized
  std::string head_note_;          // a line for the terminal, or ""
};

// Creates a task with a head, as described by the config of the run.
std::unique_ptr<Task> make_head_task(TaskKind kind, const TaskSources& sources);

}  // namespace gpt
