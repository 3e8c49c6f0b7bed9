#pragma once

#include <cstdint>
#include <string_view>

namespace gpt {

// The environment variable that arms one fault point, for tests of kills and interruptions at an exact place:
// "NAME" or "NAME:INDEX", which kills the process there, or either of them followed by "=" and the signals to
// raise instead, KILL, TERM, INT or HUP: "evaluation:3=TERM", "train.step:2=TERM+TERM".
inline constexpr const char* kFaultPoint = "GPT_FAULT_POINT";

// Raises the signals of GPT_FAULT_POINT in this thread if it names this place; otherwise returns. `index`
// counts the passes of a loop; "NAME" means index 0. Costs a look into the environment: for places that are
// passed at most once for each step of a run.
void fault_point(std::string_view name, int64_t index = 0);

}  // namespace gpt
