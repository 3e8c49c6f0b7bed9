#pragma once

#include <cstdint>
#include <string_view>

namespace gpt {

// Name of the environment variable that arms one fault point, so that tests can kill or interrupt the process
// at an exact place. The value "NAME" or "NAME:INDEX" kills the process at that fault point. Appending "="
// and the signals KILL, TERM, INT or HUP raises these signals instead: "evaluation:3=TERM",
// "train.step:2=TERM+TERM".
inline constexpr const char* kFaultPoint = "GPT_FAULT_POINT";

// Raises the signals of GPT_FAULT_POINT in this thread if the variable names this fault point; otherwise
// returns. `index` counts loop iterations; "NAME" means index 0. Each call reads the environment, so fault
// points belong in code that runs at most once per training step.
void fault_point(std::string_view name, int64_t index = 0);

}  // namespace gpt
