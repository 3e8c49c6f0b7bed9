#pragma once

#include <memory>
#include <string>

#include "distributed/communicator.h"

namespace gpt {

// Describes how this program was started. The values come from environment variables that launchers set.
struct Launch {
  // True if mpirun started several ranks, or if srun --mpi=pmix started the program.
  bool is_distributed = false;
  int size = 0;  // number of ranks; 0: only known after open_processes
};
// Reads the environment variables of the launcher. Throws invalid_argument if the launcher is not supported.
// Unsupported launchers are torchrun, the mpiexec of MPICH, and srun without PMIx. The error names the
// launcher.
Launch launch_of_environment();
// Returns the rank that this process will have. Returns 0 if there is only one process.
int rank_of_environment();

// Timeouts in seconds after which all ranks end. `silence` limits the time without a heartbeat from a rank
// (GPT_RANK_TIMEOUT). `operation` limits the duration of an operation (GPT_COLLECTIVE_TIMEOUT).
struct Timeouts {
  double silence = 60, operation = 1800;
};

// Connects this process with the other ranks. Returns null if there is only one process. Throws Error if this
// build has no MPI support, or if gpt_mpi.so cannot be opened or belongs to a different build.
std::unique_ptr<Communicator> open_processes(const Launch& launch);

// Types of the functions that src/mpi exports. The function "gpt_open_mpi" opens the communicator. The
// function "gpt_mpi_build" returns the build id of the module, which must equal the build id of the program.
using OpenMpi = Communicator* (*)(const Timeouts& patience);
using MpiBuild = const char* (*)();

}  // namespace gpt
