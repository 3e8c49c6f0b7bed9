#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/data_identity.h"
#include "run/run_data.h"
#include "train/train_config.h"

namespace gpt {

// Returns the run folder of a model: the path itself, or the parent of its last/ or best/ folder. Returns ""
// if the model does not belong to a run of `gpt train` or `gpt finetune`.
std::string find_run(const std::string& model);

// Returns true if the folder belongs to a fine-tuning run, which trains on examples instead of a whole text.
bool is_tuning_run(const std::string& run_folder);

// Identifies the role of a text in a run. The role is determined from file names and contents.
enum class TextRole : uint8_t {
  other,       // not part of the run's data
  trained,     // the whole training data, or a source that was split separately
  part,        // a part of the training data; it is unknown which part was held out
  validation,  // the run's val_data
};
struct TrainedText {
  TextRole role = TextRole::other;
  // Only set for `trained`. Contains the matching entries of the run's config, with their current paths.
  std::vector<std::string> data = {};
  bool changed = false;      // for `other`: the text has the name of the training data but different contents
  bool val_changed = false;  // for `trained`: only the held-out part, or val_data, has changed
  // Only set for `trained`, if the text is the complete data of the run. Contains this data, loaded with the
  // run's settings.
  std::optional<RunData> loaded = {};
};
// Finds the role of a text in a run. `names` contains entries in the format of --data, or is empty for the
// run's own data. `seed` is the seed of the built-in corpus. The texts are compared with the hashes in the
// run's last checkpoint, so the function recognizes a renamed text and detects a changed text. Runs of
// earlier versions have no hashes; for such runs, the texts themselves are compared. Throws Error if the
// run's own text cannot be read.
TrainedText find_trained_text(const std::string& run_folder, const TrainConfig& run,
                              const std::vector<std::string>& names, int64_t seed);

// Returns the data identity in the run's last checkpoint. Returns nothing if there is no checkpoint.
std::optional<DataIdentity> known_data(const std::string& run_folder);

// Resolves relative paths in config.data and config.val_data against `folder`, in which the run was started.
// A path is replaced if the file exists there and differs from the file found from the current folder.
// Returns true if any path was replaced. If `folder` is "" (unknown), nothing is replaced.
bool locate_data(TrainConfig& config, const std::string& folder);

// Returns the settings of a run. Relative data paths are resolved against the folder in which the run was
// started, if the files exist there.
TrainConfig settings_of_run(const std::string& run_folder);

}  // namespace gpt
