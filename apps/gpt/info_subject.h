#pragma once

#include <string>

#include "config_flags.h"
#include "model/model_counts.h"
#include "train/train_config.h"

namespace gpt {

// A model that `gpt info` describes: its counts, and how it would be trained.
struct InfoSubject {
  std::string name;
  ModelCounts counts;
  TrainConfig train;           // of the preset, then flags
  int64_t batch = 1;           // sequences per training step
  int64_t sequences = 1;       // of inference
  int64_t devices = 1;         // that share training
  bool assumed_vocab = false;  // the preset leaves the vocabulary to the tokenizer
  // Bytes of the tensors by type, most first, of a file that says itself what model it is (GGUF, torch.save).
  std::vector<std::pair<DType, int64_t>> stored = {};
};

struct InfoRequest {
  std::string spec;        // a preset, a model on disk, or NAME:key=value,key=value
  std::string model;       // what a spec without NAME varies
  std::string schedule;    // cosine, ...; "" as the preset has it
  int64_t batch_size = 0;  // 0: the preset's
  int64_t devices = 1;
};

// Settings come from the preset or config, the flags, and the spec's own keys, later ones winning. Nothing
// is loaded. Throws invalid_argument for what is unknown, with a suggestion.
InfoSubject find_info_subject(const InfoRequest& request, const ConfigFlags& flags);

}  // namespace gpt
