#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "model/config.h"
#include "run/checkpoint.h"
#include "text/tokenizer.h"
#include "train/train_config.h"

namespace gpt {

// Returns the config keys that may change when a run is resumed. Changing these keys does not affect results,
// except for `steps`, which extends or shortens the run, and `reduce`.
const std::vector<std::string>& resumable_keys();

// Describes an earlier run that can be resumed with a config.
struct ResumedRun {
  RunState state;
  int64_t planned_steps = 0;  // configured steps of the earlier run; the new config may have changed them
  std::string reduce_note;    // a line that reports a change of `reduce`, or ""
};

// Reads the state of the run in `folder`, and repairs its last/ folder if the run was killed. Throws Error if
// a file of the checkpoint has changed, if a config key that affects results has changed, or if `steps` is
// smaller than the number of completed steps. The error names the change. Older checkpoints that do not
// record these facts are accepted. For a fine-tuning run, `tuning` is the text of finetune.json, in which the
// path of the model may have changed.
ResumedRun check_resumable(const std::string& folder, const RunConfig& config,
                           const std::string& tuning = "{}");

// Throws Error if the text or the tokenizer differs from the text or tokenizer that the run used before.
void check_same_data(const DataIdentity& before, const DataIdentity& now);

// Writes `steps`, `reduce` and `zero` to the run's config.json if they changed, so that later resumes use the
// new values.
void keep_changes(const std::string& folder, const RunConfig& config);

// Returns a line that explains the new number of steps, or "" if the number did not change. If the learning
// rate rises, the line also contains the old and the new rate.
std::string extension_note(const ResumedRun& run, const TrainConfig& config);

// Returns a line if best/ comes from a step that was lost when the run was killed. Otherwise returns "".
std::string lost_best_note(const std::optional<BestModel>& best, int64_t step);

// Checks the settings of a run that starts from a model. Such a run keeps the model's shape and tokenizer.
// require_shape throws invalid_argument naming a config key that has a different value; the dropout and
// initialization keys may differ.
void require_shape(const ModelConfig& asked, const ModelConfig& model);
// Throws invalid_argument if the requested tokenizer `name` differs from `model`, the tokenizer of the model.
void require_tokenizer(const std::string& name, const Tokenizer& model);

// Throws Error unless a new run can start in `folder` without losing data. The folder must not contain a
// model, a run, a best model, or a file that was not written by this program. A run that ended before it
// saved anything may be restarted. If `again` is true, a run that only saved a best model may also be
// restarted; this is for runs that repeat the earlier run exactly. The caller must hold the FolderLock.
void require_free_folder(const std::string& folder, bool again);

// Prepares the folder of a run. All ranks must call it before they read the folder. Rank 0 checks that a new
// run can start there, or repairs the folder of a run that was killed, while the other ranks wait. Throws
// Error for the same reasons as require_free_folder, and also if the folder is one of the data folders of the
// run, or if a data pattern matches an output file in it.
void open_run_folder(Communicator& processes, const std::string& folder, const TrainConfig& config,
                     bool resume, bool again);

}  // namespace gpt
