#pragma once

#include <string>

#include "distributed/communicator.h"

namespace gpt {

// Throws Error on all ranks if the ranks have different values. The error names the first rank whose value
// differs from the value of rank 0. `what` names the value in the error, for example "training text".
void require_same(Communicator& processes, const std::string& what, const std::string& own);

}  // namespace gpt
