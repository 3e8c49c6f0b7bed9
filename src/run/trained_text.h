#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/data_identity.h"
#include "run/run_data.h"
#include "train/train_config.h"

namespace gpt {

// The run folder that a model belongs to: the path itself, or the folder of its last/ or best/; "" when it is
// no model of a run of `gpt train` or `gpt finetune`.
std::string find_run(const std::string& model);

// Whether a run folder is that of a fine-tuning, which learned from examples and not from all of a text.
bool is_tuning_run(const std::string& run_folder);

// What a text is to a run, by the names and the contents of files.
enum class TextRole : uint8_t {
  other,       // nothing that the run knows
  trained,     // all that it was trained on, or a source of it that was split by itself
  part,        // some of it: what was held out is not known
  validation,  // its val_data
};
struct TrainedText {
  TextRole role = TextRole::other;
  std::vector<std::string> data =
      {};                    // trained: the entries of the run's config that it is, or where it lies now
  bool changed = false;      // other: it has the name of what the run was trained on, and is something else
  bool val_changed = false;  // trained: only what was held out, or val_data, is something else
  std::optional<RunData> loaded = {};  // trained, all of it: as the run read it
};
// names: as for --data, or none for what the run was trained on; seed: of tales. What a name says the hashes
// in the run's last checkpoint must confirm, and they know a text under another name; without them, in runs
// of earlier versions, contents are compared. Throws Error when the run's own text cannot be read.
TrainedText find_trained_text(const std::string& run_folder, const TrainConfig& run,
                              const std::vector<std::string>& names, int64_t seed);

// What the run's last checkpoint says of its data; nothing without one.
std::optional<DataIdentity> known_data(const std::string& run_folder);

// Finds the texts of a run that was made in `folder`: a relative name of config.data or val_data becomes that
// of the path there, if that exists and is not the same file as here. Returns whether one did. folder "": not
// known.
bool locate_data(TrainConfig& config, const std::string& folder);

// The settings of a run, with its texts as they are found from here: relative names where the run was made,
// if they are there.
TrainConfig settings_of_run(const std::string& run_folder);

}  // namespace gpt
