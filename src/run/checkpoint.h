#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "model/model.h"
#include "run/data_identity.h"
#include "train/optimizer.h"
#include "train/step_history.h"

namespace gpt {

class ShardedWeights;

// Work that was due after a step and that an interrupt cut short. The resumed run does it first.
enum class Pending : uint8_t { nothing, evaluation, sample };

// The state of a run besides config, weights and optimizer state. The data position is the step.
struct RunState {
  int64_t step = 0;  // completed steps
  StepHistory history;
  int64_t tokens = 0;
  int64_t skipped = 0;
  DataIdentity data;
  std::string data_folder;    // folder that relative data paths refer to; "" in older checkpoints
  std::string config = "{}";  // config of the run as JSON; {} in older checkpoints
  std::string tuning = "{}";  // finetune.json of a fine-tuning run; {} otherwise and in older checkpoints
  Pending pending = Pending::nothing;  // unfinished work after `step`
  double best_val_loss = 0;            // meaningful when best_step >= 0
  int64_t best_step = -1;
  double best_tie_loss = 0;       // fine-tuning: breaks ties between equally good evaluations
  int64_t stale_evaluations = 0;  // consecutive evaluations without a new best loss
  double train_seconds = 0;
  double eval_seconds = 0, sample_seconds = 0, save_seconds = 0, setup_seconds = 0;
  int64_t peak_bytes = 0;  // peak memory, the maximum over all processes of the run so far
};

// The model in a run's best/, as recorded in best/train_best.json. Its step may be later than that of the
// last checkpoint.
struct BestModel {
  int64_t step = 0;
  double val_loss = 0;
};

// Other contents of a model folder: tokenizer.json, unless it is empty, and the files that `write` adds to
// the given folder. If all parameters of the model itself are frozen, only the additional parameters are
// saved.
struct BesideModel {
  std::string tokenizer_json;
  std::function<void(const std::string& folder)> write = {};
};

// Writes a complete model folder, with the facts about the best model of a run if given; crash-safe. Throws
// Error before writing anything if the disk has too little space.
void save_model(const std::string& folder, const Model& model, const BesideModel& beside,
                const std::optional<BestModel>& best = {});
// Returns nothing if the folder has no such record, or one of an earlier version.
std::optional<BestModel> read_best(const std::string& folder);

// Describes which model of a run folder is used as MODEL (resolve_model_path), and its step: "DIR is
// DIR/best, step 300; DIR/last is step 500". Returns "" if `path` is not a run folder or the steps cannot be
// read.
std::string run_model_note(const std::string& path);

// Writes a model folder with train_state.safetensors and train_state.json. A run resumed from it has
// bit-identical results. Every rank calls this function: each rank writes its part of the optimizer state,
// and rank 0 writes the rest. sharded: the sharded weights of ZeRO 3, or null.
void save_checkpoint(const std::string& folder, const Model& model, const OptimizerState& optimizer,
                     const RunState& state, const BesideModel& beside,
                     Communicator& processes = single_process(), ShardedWeights* sharded = nullptr);

// Return upper estimates of the disk space of a model folder, and of a checkpoint with optimizer state.
uint64_t model_folder_bytes(const Model& model);
uint64_t checkpoint_bytes(const Model& model, const OptimizerState& optimizer);

// Reads the state of the checkpoint in a folder. Throws Error naming the invalid file or key.
RunState read_run_state(const std::string& folder);
// Loads weights and optimizer state from the checkpoint. filled: called for each parameter once its weights
// are loaded. Throws Error naming the invalid file or tensor.
void load_checkpoint(const std::string& folder, const Model& model, const ParamBuffer& weights,
                     const OptimizerState& optimizer, const std::function<void(int id)>& filled = {});

}  // namespace gpt
