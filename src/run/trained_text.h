#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/data_identity.h"
#include "run/run_data.h"
#include "train/train_config.h"

namespace gpt {

// Returns the run folder of a model: the path itself, or the parent of its last/ or best/. Returns "" if the
// model does not belong to a run of `gpt train` or `gpt finetune`.
std::string find_run(const std::string& model);

// Returns whether a run folder belongs to a fine-tuning run, which trains on examples, not on a whole text.
bool is_tuning_run(const std::string& run_folder);

// The role of a text in a run, determined by file names and contents.
enum class TextRole : uint8_t {
  other,       // not part of the run's data
  trained,     // the whole training data, or a source that was split separately
  part,        // a part of the training data; the held-out part is unknown
  validation,  // the run's val_data
};
struct TrainedText {
  TextRole role = TextRole::other;
  std::vector<std::string> data =
      {};                    // trained: the matching entries of the run's config, with their current paths
  bool changed = false;      // other: has the name of the training data, but different contents
  bool val_changed = false;  // trained: only the held-out part, or val_data, has changed
  std::optional<RunData> loaded = {};  // trained, whole data: the data as the run loaded it
};
// Finds the role of a text in a run. names: entries as for --data, or empty for the run's own data; seed: the
// seed of tales. The hashes in the run's last checkpoint confirm or replace the match by name, so a renamed
// text is recognized. Runs of earlier versions have no hashes; their contents are compared instead. Throws
// Error if the run's own text cannot be read.
TrainedText find_trained_text(const std::string& run_folder, const TrainConfig& run,
                              const std::vector<std::string>& names, int64_t seed);

// Returns the data identity in the run's last checkpoint; nothing if there is no checkpoint.
std::optional<DataIdentity> known_data(const std::string& run_folder);

// Resolves relative paths of config.data and val_data against `folder`, in which the run was started.
// Replaces a path if the file exists there and is a different file than the one found from the current
// folder. Returns whether any path was replaced. folder: "" if unknown.
bool locate_data(TrainConfig& config, const std::string& folder);

// Returns the settings of a run, with relative data paths resolved against the folder in which the run was
// started, if the files exist there.
TrainConfig settings_of_run(const std::string& run_folder);

}  // namespace gpt
