#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "model/config.h"
#include "run/checkpoint.h"
#include "text/tokenizer.h"
#include "train/train_config.h"

namespace gpt {

// Config keys that may differ when a run goes on. None of them changes the numbers but `steps`, with which
// the run is extended or shortened, and `reduce`.
const std::vector<std::string>& resumable_keys();

// A run's earlier state, found fit to go on with a config.
struct ResumedRun {
  RunState state;
  int64_t planned_steps = 0;  // of the run so far; the config's steps, unless these have been changed
  std::string reduce_note;    // that another `reduce` begins here, for people: a line, or ""
};

// Reads the state of the run in `folder` (its last/ is repaired after a kill). Throws Error naming what
// changed: a file of the checkpoint, a config key that changes the numbers, steps that are fewer than those
// done. Checkpoints from before such things were recorded are taken as they are.
// tuning: of a fine-tuning run, the text of its finetune.json; there the model may lie elsewhere.
ResumedRun check_resumable(const std::string& folder, const RunConfig& config,
                           const std::string& tuning = "{}");

// Throws Error when the text or the tokenizer is not what the run was made with so far.
void check_same_data(const DataIdentity& before, const DataIdentity& now);

// Writes steps and `reduce` into the run's config.json, if it has others: later resumes go on with them.
void keep_changes(const std::string& folder, const RunConfig& config);

// What the new number of steps means, for people: a line, or "" when it is the old one. Says so when the
// learning rate rises.
std::string extension_note(const ResumedRun& run, const TrainConfig& config);

// That best/ is of a step that a kill has lost: a line, or "".
std::string lost_best_note(const std::optional<BestModel>& best, int64_t step);

// A run that starts from a model keeps its shape and its tokenizer. Throws invalid_argument naming a key that
// was set to something else; dropout may be chosen.
void require_shape(const ModelConfig& asked, const ModelConfig& model);
// name: the tokenizer that was asked for, in place of `model`, the model's.
void require_tokenizer(const std::string& name, const Tokenizer& model);

// Throws Error unless a new run may begin in `folder` and nothing is lost: not in a model or a run, not where
// a best model or a file of others would be replaced. Begun anew may be what ended before it saved anything;
// `again`: even where it left a best model, for runs that only repeat it. The caller holds the FolderLock.
void require_free_folder(const std::string& folder, bool again);

// Called by every process before it reads the folder of the run: rank 0 checks that a new run may begin
// there, or repairs what a kill left behind; all other ranks wait for it. Throws Error as require_free_folder
// does, and if the folder would be read as data of the run, or hide it.
void open_run_folder(Communicator& processes, const std::string& folder, const TrainConfig& config,
                     bool resume, bool again);

}  // namespace gpt
