#pragma once

#include <string>
#include <vector>

#include "train/run_plan.h"

namespace gpt {

// A plan as tables for people, and what run_advice says of it.
std::string plan_text(const RunPlan& plan, const std::vector<std::string>& advice);

}  // namespace gpt
