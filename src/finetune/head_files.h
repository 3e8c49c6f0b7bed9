#pragma once

#include <string>
#include <vector>

#include "finetune/classifier.h"
#include "model/model_files.h"

namespace gpt {

inline constexpr const char* kTaskFile = "task.json";

// Returns the files of the head [outputs,C] in the format of the corresponding Transformers class. If
// Transformers has no such class for the model family, the files use the same tensor name as for the other
// families. The memory of `head` must stay valid as long as the result is used.
HeadFiles head_files(const HeadFacts& facts, const ModelConfig& config, const TensorView& head);
// Returns the content of task.json, which stores the facts that have no key in config.json.
std::string task_json(const HeadFacts& facts);

// Returns true if the model folder contains task.json, the file that describes a task head.
bool has_head(const std::string& folder);
// Stores the head of a model. read_head reads the head from task.json in the model folder and from a tensor
// in the files of the model. It throws Error if the model has no head, or if the files contradict each other.
// If there is no head, the error explains how to create a head.
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
