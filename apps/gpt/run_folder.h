#pragma once

#include <memory>
#include <string>

namespace gpt {

class Communicator;
class ConfigFlags;
class FolderLock;
struct RunConfig;
struct RunOptions;

// Makes the folder of a run without --out: runs/N, one more than the largest number in runs/. The same in
// every process; rank 0 makes it.
std::string next_run_folder(Communicator& processes);

// Fills in the options of a run of this program in the folder `out`; "": in next_run_folder. Returns the lock
// of that folder in rank 0, else null.
std::unique_ptr<FolderLock> open_run(std::string out, bool resume, const std::string& command_line,
                                     RunOptions& options);

// The config of a run that is resumed, with what flags and the environment change. Throws invalid_argument
// for keys that cannot change.
RunConfig resumed_run_config(const RunConfig& before, const std::string& path, const ConfigFlags& flags);

}  // namespace gpt
