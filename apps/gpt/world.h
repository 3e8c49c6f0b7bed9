#pragma once

#include "distributed/processes.h"

namespace gpt {

struct MachineOptions;
struct TrainConfig;

// What `gpt launch` tells its processes: the words before their command.
inline constexpr const char* kLaunchedBy = "GPT_LAUNCHED_BY";
// What one types before a command to start it as this one was started: "gpt", "gpt launch -n 4 --",
// "mpirun -n 4 gpt".
std::string program();

// Whether this is the process that reads locks, writes and speaks: rank 0, or the only one.
bool is_first_process();

// The processes that the program was started as, connected when first asked for.
Communicator& world();

// Settles into how many shards the batches of a run are cut, and says so. Throws invalid_argument where they
// cannot be. Runs of earlier versions have one.
void share_run(TrainConfig& config, int processes, bool resume);

// What was asked for, with this process's part of the machine's CPUs where it shares them with others.
MachineOptions part_of_machine(const MachineOptions& options);

// What several processes can share: "train".
const std::vector<std::string>& shared_commands();
// Throws invalid_argument where several were started for a command that runs in one.
void require_one_process(const std::string& command);

// Before the program ends: well, after all others have come as far; or with an error, which ends them.
void leave_world();
void end_world(int status);

}  // namespace gpt
