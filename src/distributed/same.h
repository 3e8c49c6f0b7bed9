#pragma once

#include <string>

#include "distributed/communicator.h"

namespace gpt {

// Throws Error in all processes, naming the first that has something else than rank 0. what: "training text".
void require_same(Communicator& processes, const std::string& what, const std::string& own);

}  // namespace gpt
