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

// Identifies an evaluation or sample that was due after the last completed step but was interrupted. A
// resumed run repeats it first.
enum class Pending : uint8_t { nothing, evaluation, sample };

// Stores the state of a run except its weights and optimizer state. The step also determines the position in
// the data.
struct RunState {
  int64_t step = 0;  // completed steps
  StepHistory history;
  int64_t tokens = 0;
  int64_t skipped = 0;
  DataIdentity data;
  std::string data_folder;    // folder that relative data paths refer to; "" in older checkpoints
  std::string config = "{}";  // config of the run as JSON; {} in older checkpoints
  // For a fine-tuning run, the text of finetune.json. For other runs and in older checkpoints, {}.
  std::string tuning = "{}";
  Pending pending = Pending::nothing;  // unfinished work after `step`
  double best_val_loss = 0;            // only valid if best_step >= 0
  int64_t best_step = -1;
  double best_tie_loss = 0;       // for fine-tuning: breaks ties between equally good evaluations
  int64_t stale_evaluations = 0;  // consecutive evaluations without a new best loss
  double train_seconds = 0;
  double eval_seconds = 0, sample_seconds = 0, save_seconds = 0, setup_seconds = 0;
  int64_t peak_bytes = 0;  // peak memory of the run so far, the maximum over all processes
};

// Describes the model in the best/ folder of a run, as recorded in best/train_best.json. The step of this
// model may be later than the step of the last checkpoint.
struct BestModel {
  int64_t step = 0;
  double val_loss = 0;
};

// Contains the other files of a model folder: tokenizer.json (unless the text is empty) and the files that
// `write` adds to the folder. If all parameters of the model itself are frozen, only the parameters of the
// objective are saved.
struct BesideModel {
  std::string tokenizer_json;
  std::function<void(const std::string& folder)> write = {};
};

// Writes a complete model folder. The write is crash-safe. If `best` is given, also writes the record of the
// best model. Throws Error before writing anything if the disk does not have enough space.
void save_model(const std::string& folder, const Model& model, const BesideModel& beside,
                const std::optional<BestModel>& best = {});
// Reads the record of the best model. Returns nothing if the folder has no record.
std::optional<BestModel> read_best(const std::string& folder);

// Returns a line that names the model that is used if a run folder is given as MODEL (resolve_model_path),
// and the step of this model: "DIR is DIR/best, step 300; DIR/last is step 500". Returns "" if `path` is not
// a run folder or if the steps cannot be read.
std::string run_model_note(const std::string& path);

// Writes a checkpoint: a model folder with train_state.safetensors and train_state.json. Resuming from the
// checkpoint gives bit-identical results. All ranks must call this function: each rank writes its part of the
// optimizer state, and rank 0 writes all other files. `sharded` are the sharded weights of ZeRO 3, or null.
void save_checkpoint(const std::string& folder, const Model& model, const OptimizerState& optimizer,
                     const RunState& state, const BesideModel& beside,
                     Communicator& processes = single_process(), ShardedWeights* sharded = nullptr);

// model_folder_bytes returns an upper bound for the disk space of a model folder. checkpoint_bytes returns an
// upper bound for a checkpoint, which also contains the optimizer state.
uint64_t model_folder_bytes(const Model& model);
uint64_t checkpoint_bytes(const Model& model, const OptimizerState& optimizer);

// Reads the state of the checkpoint in a folder. Throws Error naming the invalid file or key.
RunState read_run_state(const std::string& folder);
// Loads the weights and the optimizer state from a checkpoint. Calls `filled` for each parameter after its
// weights are loaded. Throws Error naming the invalid file or tensor.
void load_checkpoint(const std::string& folder, const Model& model, const ParamBuffer& weights,
                     const OptimizerState& optimizer, const std::function<void(int id)>& filled = {});

}  // namespace gpt
