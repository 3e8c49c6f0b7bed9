#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "info_subject.h"

namespace gpt {

// Bytes of one model in use.
struct InfoMemory {
  explicit InfoMemory(const InfoSubject& subject);
  int64_t weights(int64_t element_bytes) const { return element_bytes * parameters; }

  int64_t parameters;
  int64_t cache_values_per_token;  // keys and values of a token
  int64_t cache_tokens;            // of all sequences with a full context
  // Of a training step in fp32 and in 16 bits, kept and recomputed.
  int64_t activations_fp32, activations_16, recomputed_fp32, recomputed_16;
};

std::string describe_subject(const InfoSubject& subject);
// Its parameters by the names that --freeze and --lr-scale match.
std::string tensor_table(const InfoSubject& subject);
std::string zero_table(const InfoSubject& subject);       // what each of subject.devices holds
std::string quick_reference(const InfoSubject& subject);  // components, data flow, formulas, memory
std::string compare_subjects(const std::vector<InfoSubject>& subjects);
// The learning rate with bars, at `steps`, or at those of schedule_steps.
std::string schedule_table(const TrainConfig& config, const std::vector<int64_t>& steps);

nlohmann::json subject_json(const InfoSubject& subject);

}  // namespace gpt
