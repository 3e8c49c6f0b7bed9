#pragma once

#include <string>

#include "distributed/communicator.h"
#include "kernels/kernel_table.h"
#include "train/data_identity.h"

namespace gpt {

// What the processes that share a run must agree on, besides the program itself.
struct RunIdentity {
  const DataIdentity& data;
  const std::string& config;  // as JSON; "threads" may differ
  Isa isa;
  int64_t step;  // that it goes on from
};
// Throws Error in all of them, naming the first that has something else, and what.
void require_same_run(Communicator& processes, const RunIdentity& run);

}  // namespace gpt
