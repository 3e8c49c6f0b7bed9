#pragma once

#include <memory>
#include <string>

namespace gpt {

class Communicator;
class ConfigFlags;
class FolderLock;
struct RunConfig;
struct RunOptions;

// Creates the folder of a run without --out: runs/N, with N one more than the largest number in runs/. Rank 0
// creates it; all ranks return the same name.
std::string next_run_folder(Communicator& processes);

// Fills in the options of a run in the folder `out`. If `out` is "", creates a folder with next_run_folder.
// Returns the lock of the folder on rank 0, else null.
std::unique_ptr<FolderLock> open_run(std::string out, bool resume, const std::string& command_line,
                                     RunOptions& options);

// Returns the config of a resumed run, with the changes made by flags and the environment. Throws
// invalid_argument for keys that cannot change.
RunConfig resumed_run_config(const RunConfig& before, const std::string& path, const ConfigFlags& flags);

}  // namespace gpt
