#pragma once

#include <string>

#include "distributed/communicator.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "run/data_identity.h"

namespace gpt {

// Contains the facts that all ranks of a run must agree on, in addition to the program itself.
struct RunIdentity {
  const DataIdentity& data;
  const std::string& config;  // as JSON; "threads" may differ
  std::string_view kernels;   // KernelTable::name
  int64_t step;               // step at which the run starts or resumes
  std::string begins = {};    // hash of the initial state (start_of_run)
  std::string settings = {};  // additional settings as JSON, or ""
};
// Returns a hash of the weights of a model in their stored form.
std::string weights_hash(const Model& model);
// Returns a hash of the initial state of a run. If the run resumes, the result is the hash of the checkpoint
// in the folder `last`. Otherwise, it is the hash of the weights of the model `begun`, or "" if `begun` is
// null, which means random weights.
std::string start_of_run(bool resumes, const std::string& last, const Model* begun);
// Throws Error on all ranks if the ranks disagree on a fact. The message names the fact and the first rank
// that differs.
void require_same_run(Communicator& processes, const RunIdentity& run);

}  // namespace gpt
