#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/objective.h"
#include "model/params.h"
#include "train/train_step.h"

namespace gpt {

// What the held-out examples say of a model.
struct TaskScore {
  double loss = 0;
  double best_value = 0;  // higher is better
  std::string best_name;
  std::vector<std::pair<std::string, double>> metrics;
  std::string text;         // lines for people
  std::string predictions;  // CSV: every held-out example's
};

// What a model is fine-tuned to do.
class Task {
 public:
  virtual ~Task() = default;

  virtual const Objective& objective() const = 0;
  virtual int64_t train_samples() const = 0;  // rows of an epoch; those of a group are kept together
  virtual int64_t n_ctx() const = 0;          // of the longest row
  // Samples [first, first + rows) of a step's batch: a function of seed and step.
  virtual void fill(int64_t step, int64_t first, int64_t rows, int64_t batch_size,
                    const TrainStep::Samples& samples) const = 0;
  // `interrupted` is asked before each batch; what comes back when it says true is of no use.
  virtual TaskScore evaluate(const Model& model, const Backend& backend,
                             const std::function<bool()>& interrupted) const = 0;
  // What stands beside the model in its folder.
  virtual void write_files(const std::string& folder, const Model& model,
                           const ParamBuffer& weights) const = 0;
};

}  // namespace gpt
