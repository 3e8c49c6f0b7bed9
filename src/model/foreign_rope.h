#pragma once

#include <nlohmann/json_fwd.hpp>

#include "model/config.h"

namespace gpt {

// Reads rotary positions as transformers 5 does: "rope_scaling" before "rope_parameters", "rope_theta" and
// others inside it before those beside it. The config is complete otherwise. Throws UsageError that names the
// key for kinds that the decoder lacks.
void read_foreign_rope(const nlohmann::json& object, ModelConfig& config);

}  // namespace gpt
