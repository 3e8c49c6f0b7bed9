#pragma once

#include <string>

namespace gpt {

// Runs a command with the shell, gives it a text on standard input and returns what it writes to standard
// output (stderr is ours). Throws Error where it fails, takes longer than so many seconds (it and its
// children are then killed), or writes more than 64 MiB.
std::string run_command(const std::string& command, const std::string& input, double seconds);

}  // namespace gpt
