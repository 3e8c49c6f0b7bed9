#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// The run folder that a model belongs to: the path itself, or the folder of its last/ or best/; "" when it is
// no model of a run of `gpt train`.
std::string find_run(const std::string& model);

// What a text is to a run, by the names and the contents of files.
enum class TextRole : uint8_t {
  other,       // nothing that the run knows
  trained,     // all that it was trained on, or a source of it that was split by itself
  part,        // some of it: what was held out is not known
  validation,  // its val_data
};
struct TrainedText {
  TextRole role = TextRole::other;
  std::vector<std::string> data;  // trained: the entries of the run's config that it is, or where they lie now
};
// names: as for --data; seed: of tales. Reads the files only where their sizes agree, or where the run's own are no
// longer there: then the hashes in its checkpoint tell.
TrainedText find_trained_text(const std::string& run_folder, const TrainConfig& run,
                              const std::vector<std::string>& names, int64_t seed);

}  // namespace gpt
