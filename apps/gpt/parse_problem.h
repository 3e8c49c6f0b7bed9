#pragma once

#include <string>

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace gpt {

// Returns the message for a command line that the parser rejects: the flag, what was expected and what was
// found.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error);

// Adds number checks to all flags of a command and its subcommands. The parser alone would clamp numbers that
// are too large and read 010 as octal 8. Both are rejected, as are "inf" and "nan". Flags of config keys are
// skipped, because config keys have their own checks.
void check_numbers(CLI::App& app);

// Returns true if an option takes a number, according to the name of its type in the help.
bool takes_a_number(const CLI::Option& option);

}  // namespace gpt
