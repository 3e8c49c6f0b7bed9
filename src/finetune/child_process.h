#pragma once

#include <string>

namespace gpt {

// Runs a command in a shell, passes `input` as its standard input, and returns its standard output. The
// command inherits stderr. When the shell ends, all processes that the command has started and that are still
// running are killed, including processes in other sessions. Throws Error if the command fails or writes more
// than 64 MiB. If the command takes longer than `seconds`, kills it and throws Error.
std::string run_command(const std::string& command, const std::string& input, double seconds);

}  // namespace gpt
