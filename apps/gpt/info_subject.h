#pragma once

#include <string>

#include "config_flags.h"
#include "model/model_counts.h"
#include "train/train_config.h"

namespace gpt {

// A model that `gpt info` describes: its counts, and the settings to train it with.
struct InfoSubject {
  std::string name;
  ModelCounts counts;
  TrainConfig train;           // settings of the preset, then of flags
  int64_t batch = 1;           // sequences per training step
  int64_t sequences = 1;       // sequences of inference
  int64_t devices = 1;         // number of ranks that share the training
  bool assumed_vocab = false;  // true if the preset leaves the vocabulary to the tokenizer
  // Bytes of the tensors by dtype, largest first. Only set for files that contain their own config (GGUF,
  // torch.save).
  std::vector<std::pair<DType, int64_t>> stored = {};
};

struct InfoRequest {
  std::string spec;        // a preset, a model on disk, or NAME:key=value,key=value
  std::string model;       // the base model for a spec without NAME
  std::string schedule;    // name of the schedule, for example cosine; "": that of the preset
  int64_t batch_size = 0;  // 0: that of the preset
  int64_t devices = 1;
};

// Applies the settings in this order: preset or config, flags, keys of the spec. Later settings override
// earlier ones. Does not load weights. Throws invalid_argument with a suggestion for unknown names.
InfoSubject find_info_subject(const InfoRequest& request, const ConfigFlags& flags);

}  // namespace gpt
