#pragma once

#include <string>
#include <vector>

#include "model/model.h"
#include "train/loss_scale.h"
#include "train/optimizer.h"

namespace gpt {

// What a run is besides its config, its weights and its moments. The data position is the step.
struct RunState {
  int64_t step = 0;     // steps done
  int64_t updates = 0;  // optimizer updates done: steps that were not skipped
  int64_t tokens = 0;
  int64_t skipped = 0;
  int64_t data_tokens = 0;   // of the training text: it must be the same on resume
  double best_val_loss = 0;  // meaningful when best_step >= 0
  int64_t best_step = -1;
  double train_seconds = 0;
  double eval_seconds = 0, sample_seconds = 0, save_seconds = 0, setup_seconds = 0;
  int64_t peak_bytes = 0;             // of memory, the largest of all processes that made the run
  LossScale loss_scale;               // fp16
  std::vector<double> losses, norms;  // history of the outlier detectors
};

// Writes a complete model folder, with tokenizer.json when tokenizer_json is not empty; crash-safe.
void save_model_folder(const std::string& folder, const Model& model, const ParamBuffer& weights,
                       const std::string& tokenizer_json);

// The same with train_state.safetensors and train_state.json, from which the run can go on bit for bit.
void save_checkpoint(const std::string& folder, const Model& model, const ParamBuffer& weights,
                     const Optimizer& optimizer, const RunState& state, const std::string& tokenizer_json);

// Verifies the folder's checksums and fills weights and moments. Throws Error naming what is wrong.
RunState load_checkpoint(const std::string& folder, const Model& model, const ParamBuffer& weights,
                         const Optimizer& optimizer);

}  // namespace gpt
