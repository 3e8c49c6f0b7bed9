#pragma once

#include "distributed/processes.h"

namespace gpt {

struct MachineOptions;
struct TrainConfig;

// The environment variable in which `gpt launch` passes its own command prefix to the processes.
inline constexpr const char* kLaunchedBy = "GPT_LAUNCHED_BY";
// Returns the words to type before a command to start it like this process: "gpt", "gpt launch -n 4 --",
// "mpirun -n 4 gpt".
std::string program();

// Returns true on rank 0, which takes locks, writes files and prints. Also true if there is only one process.
bool is_first_process();

// Returns the communicator of all processes of the program. The first call connects them.
Communicator& world();

// Determines how many shards the batches of a run are split into, and prints the choice. Throws
// invalid_argument if the batches cannot be split. Runs of earlier versions have one shard.
void share_run(TrainConfig& config, int processes, bool resume);

// Returns the options with this process's share of the CPUs if other ranks share the machine.
MachineOptions part_of_machine(const MachineOptions& options);

// Returns the commands that can be distributed, for example "train".
const std::vector<std::string>& shared_commands();
// Throws invalid_argument if several processes were started for a command that runs in a single process.
void require_one_process(const std::string& command);

// Ends distributed communication before the program ends. leave_world waits for all ranks. end_world aborts
// all ranks with an error.
void leave_world();
void end_world(int status);

}  // namespace gpt
