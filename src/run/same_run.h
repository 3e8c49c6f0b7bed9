#pragma once

#include <string>

#include "distributed/communicator.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "run/data_identity.h"

namespace gpt {

// What the processes that share a run must agree on, besides the program itself.
struct RunIdentity {
  const DataIdentity& data;
  const std::string& config;  // as JSON; "threads" may differ
  std::string_view kernels;   // KernelTable::name
  int64_t step;               // that it goes on from
  std::string begins = {};    // what it goes on from: start_of_run
  std::string settings = {};  // further ones, as JSON; "": none
};
// A hash of a model's weights as they are stored.
std::string weights_hash(const Model& model);
// Of what a run goes on from, in `last`, or else begins with; "" for weights that are drawn. `begun` is null
// there.
std::string start_of_run(bool resumes, const std::string& last, const Model* begun);
// Throws Error in all of them, naming the first that has something else, and what.
void require_same_run(Communicator& processes, const RunIdentity& run);

}  // namespace gpt
