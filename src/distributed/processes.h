#pragma once

#include <memory>
#include <string>

#include "distributed/communicator.h"

namespace gpt {

// How this program was started, by the variables that launchers set.
struct Launch {
  bool is_distributed = false;  // by mpirun, or by srun --mpi=pmix
  int size = 0;                 // of all; 0: known only when they are opened
};
// Throws invalid_argument for launchers that are not supported, by name: torchrun, the mpiexec of MPICH, srun
// without PMIx.
Launch launch_of_environment();
// The rank that this process will have; 0 where it is alone.
int rank_of_environment();

// Seconds after which all processes end: when one of them has given no sign of life, and when an operation is
// still under way. From GPT_RANK_TIMEOUT and GPT_COLLECTIVE_TIMEOUT.
struct Timeouts {
  double silence = 60, operation = 1800;
};

// Connects this process with the others. Null where it is alone. Throws Error when this build has no MPI, or
// its shared object cannot be opened or is of another build.
std::unique_ptr<Communicator> open_processes(const Launch& launch);

// What src/mpi exports, as "gpt_open_mpi", and as "gpt_mpi_build" which build it is of: that of the program,
// or it is not opened.
using OpenMpi = Communicator* (*)(const Timeouts& patience);
using MpiBuild = const char* (*)();

}  // namespace gpt
