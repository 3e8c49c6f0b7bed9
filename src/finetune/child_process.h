#pragma once

#include <string>

namespace gpt {

// Runs a command with the shell, gives it a text on standard input and returns what it writes to standard
// output (stderr is ours). Whatever the command has started and left running, in other sessions too, is
// killed when the shell ends. Throws Error if the command fails, takes longer than `seconds` (it is
// killed then), or writes more than 64 MiB.
std::string run_command(const std::string& command, const std::string& input, double seconds);

}  // namespace gpt
