#pragma once

#include <string>

#include "train/run_plan.h"

namespace gpt {

// A plan as tables for people.
std::string plan_text(const RunPlan& plan);

}  // namespace gpt
