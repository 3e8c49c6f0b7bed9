#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/pre_tokenizer.h"

namespace gpt::detail {

// The steps of a pre_tokenizer of a byte-level tokenizer.json; `name` stands for the file. Throws Error,
// naming what it is, for anything that would change ids and is not supported.
std::vector<SplitStep> read_split_steps(const nlohmann::json& pre_tokenizer, const std::string& name);

// The reverse.
nlohmann::json split_steps_json(const std::vector<SplitStep>& steps);

}  // namespace gpt::detail
