#pragma once

#include <string>

namespace gpt {

// Runs a command in a shell, passes `input` as its standard input, and returns its standard output. The
// command inherits stderr. All processes that the command started and left running are killed when the shell
// ends, including processes in other sessions. Throws Error if the command fails, takes longer than `seconds`
// (it is then killed), or writes more than 64 MiB.
std::string run_command(const std::string& command, const std::string& input, double seconds);

}  // namespace gpt
