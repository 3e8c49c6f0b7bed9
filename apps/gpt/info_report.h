#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "info_subject.h"

namespace gpt {

// Memory that a model needs for inference and training.
struct InfoMemory {
  explicit InfoMemory(const InfoSubject& subject);
  int64_t weights(int64_t element_bytes) const { return element_bytes * parameters; }

  int64_t parameters;
  int64_t cache_values_per_token;  // elements of keys and values per token
  int64_t cache_tokens;            // tokens in the KV caches of all sequences with a full context
  // Bytes of activations in a training step with fp32 and 16-bit activations, stored or recomputed.
  int64_t activations_fp32, activations_16, recomputed_fp32, recomputed_16;
};

std::string describe_subject(const InfoSubject& subject);
// Returns a table of the parameters, with the parameter names for the patterns of --freeze and --lr-scale.
std::string tensor_table(const InfoSubject& subject);
std::string zero_table(const InfoSubject& subject);       // memory of each of the subject.devices ranks
std::string quick_reference(const InfoSubject& subject);  // components, data flow, formulas, memory
std::string compare_subjects(const std::vector<InfoSubject>& subjects);
// Returns a table of the learning rate with bars, at the given steps, or at those of schedule_steps if empty.
std::string schedule_table(const TrainConfig& config, const std::vector<int64_t>& steps);

nlohmann::json subject_json(const InfoSubject& subject);

}  // namespace gpt
