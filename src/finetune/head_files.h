#pragma once

#include <string>
#include <vector>

#include "finetune/classifier.h"
#include "model/model_files.h"

namespace gpt {

inline constexpr const char* kTaskFile = "task.json";

// The head [outputs,C] as the class of transformers for such models has it; of families without one under
// the same name. The view must live as long as this.
HeadFiles head_files(const HeadFacts& facts, const ModelConfig& config, const TensorView& head);
// task.json: what config.json has no keys for.
std::string task_json(const HeadFacts& facts);

// Whether a model's folder has a head's task.json.
bool has_head(const std::string& folder);
// Reads the head of a model: task.json in its folder, and the tensor in its files. Throws Error where there
// is none, saying what to do, and where the files contradict each other.
struct TaskHead {
  HeadFacts facts;
  std::vector<float> weight;  // [outputs,C]
  TensorView view() const {
    const int64_t rows = facts.shape().outputs;
    return make_view(weight.data(), {rows, std::ssize(weight) / rows});
  }
};
TaskHead read_head(const LoadedModel& loaded);

}  // namespace gpt
