#pragma once

#include <string>

namespace gpt {

class Communicator;

// Makes the folder of a run without --out: runs/N, one more than the largest number in runs/. The same in
// every process; rank 0 makes it.
std::string next_run_folder(Communicator& processes);

}  // namespace gpt
