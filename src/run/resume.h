#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "model/config.h"
#include "run/checkpoint.h"
#include "text/tokenizer.h"
#include "train/train_config.h"

namespace gpt {

// Returns the config keys that may change when a run is resumed. They do not affect results, except `steps`,
// which extends or shortens the run, and `reduce`.
const std::vector<std::string>& resumable_keys();

// The state of an earlier run that can be resumed with a config.
struct ResumedRun {
  RunState state;
  int64_t planned_steps = 0;  // configured steps of the run so far; the config may have changed them
  std::string reduce_note;    // a line that reports a change of `reduce`, or ""
};

// Reads the state of the run in `folder` and repairs its last/ after a kill. Throws Error naming the change
// if a file of the checkpoint or a config key that affects results has changed, or if the config has fewer
// steps than are completed. Accepts older checkpoints that do not record these facts. tuning: the text of
// finetune.json of a fine-tuning run, whose model path may have changed.
ResumedRun check_resumable(const std::string& folder, const RunConfig& config,
                           const std::string& tuning = "{}");

// Throws Error if the text or the tokenizer differs from that of the run so far.
void check_same_data(const DataIdentity& before, const DataIdentity& now);

// Writes `steps` and `reduce` to the run's config.json if they changed, so that later resumes use them.
void keep_changes(const std::string& folder, const RunConfig& config);

// Returns a line that explains the new number of steps, or "" if it did not change. The line mentions a
// rising learning rate.
std::string extension_note(const ResumedRun& run, const TrainConfig& config);

// Returns a line if best/ is from a step that a kill has lost, else "".
std::string lost_best_note(const std::optional<BestModel>& best, int64_t step);

// A run that starts from a model keeps the model's shape and tokenizer. Throws invalid_argument naming a key
// that is set to a different value; dropout may differ.
void require_shape(const ModelConfig& asked, const ModelConfig& model);
// name: the requested tokenizer; model: the tokenizer of the model.
void require_tokenizer(const std::string& name, const Tokenizer& model);

// Throws Error unless a new run can start in `folder` without losing data. The folder must not contain a
// model, a run, a best model or a file that this program did not write. A run that ended before it saved
// anything may be restarted; with `again` even if it left a best model, for runs that repeat it exactly. The
// caller holds the FolderLock.
void require_free_folder(const std::string& folder, bool again);

// Prepares the folder of a run. Every rank calls it before reading the folder: rank 0 checks that a new run
// can start there, or repairs the folder after a kill, while all other ranks wait. Throws Error like
// require_free_folder, and if the folder would be read as data of the run or would hide data.
void open_run_folder(Communicator& processes, const std::string& folder, const TrainConfig& config,
                     bool resume, bool again);

}  // namespace gpt
