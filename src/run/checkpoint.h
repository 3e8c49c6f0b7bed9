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

// What is due after a step and was cut short by an interrupt: it is made when the run goes on.
enum class Pending : uint8_t { nothing, evaluation, sample };

// What a run is besides its config, its weights and its moments. The data position is the step.
struct RunState {
  int64_t step = 0;  // steps done
  StepHistory history;
  int64_t tokens = 0;
  int64_t skipped = 0;
  DataIdentity data;
  std::string data_folder;    // where the names of the data are relative to; "" in older versions
  std::string config = "{}";  // the run's, as JSON; {} in checkpoints of older versions
  std::string tuning = "{}";  // of a fine-tuning run: finetune.json; {} for others and in older versions
  Pending pending = Pending::nothing;  // after `step`
  double best_val_loss = 0;            // meaningful when best_step >= 0
  int64_t best_step = -1;
  double best_tie_loss = 0;       // fine-tuning: tells apart evaluations that are equally good
  int64_t stale_evaluations = 0;  // without a better loss than that, one after the other
  double train_seconds = 0;
  double eval_seconds = 0, sample_seconds = 0, save_seconds = 0, setup_seconds = 0;
  int64_t peak_bytes = 0;  // of memory, the largest of all processes that made the run
};

// Which of a run's models is in its best/: train_best.json there says so. It may be of a later step than the
// last checkpoint.
struct BestModel {
  int64_t step = 0;
  double val_loss = 0;
};

// What else a folder holds: tokenizer.json, unless it is empty, and what the function writes into the folder
// that it is given. A model whose own parameters are all frozen is not written, only those behind them.
struct BesideModel {
  std::string tokenizer_json;
  std::function<void(const std::string& folder)> write = {};
};

// Writes a complete model folder, and what is known of it as the best of a run; crash-safe. Throws Error
// before anything is written when the disk has too little space.
void save_model(const std::string& folder, const Model& model, const BesideModel& beside,
                const std::optional<BestModel>& best = {});
// Nothing where there is none, or one of an earlier version.
std::optional<BestModel> read_best(const std::string& folder);

// Which model of a run folder is taken as MODEL (resolve_model_path), and its step: "DIR is DIR/best, step
// 300; DIR/last is step 500"; "" for anything else, and where the steps cannot be read.
std::string run_model_note(const std::string& path);

// A model folder with train_state.safetensors and train_state.json, from which the run can go on bit for bit.
// Processes that share a run all call it: each writes what it keeps of the optimizer's state, and rank 0 the
// rest. sharded: weights that they have divided, if they have.
void save_checkpoint(const std::string& folder, const Model& model, const OptimizerState& optimizer,
                     const RunState& state, const BesideModel& beside,
                     Communicator& processes = single_process(), ShardedWeights* sharded = nullptr);

// Bytes on the disk of a model's weights, and of a checkpoint with the optimizer's state, and a little more.
uint64_t model_folder_bytes(const Model& model);
uint64_t checkpoint_bytes(const Model& model, const OptimizerState& optimizer);

// The state of the checkpoint in a folder. Throws Error naming what is wrong.
RunState read_run_state(const std::string& folder);
// Fills weights and the optimizer's state from it; filled: called for each parameter when it is there. Throws
// Error naming what is wrong.
void load_checkpoint(const std::string& folder, const Model& model, const ParamBuffer& weights,
                     const OptimizerState& optimizer, const std::function<void(int id)>& filled = {});

}  // namespace gpt
