#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace gpt {

// Returns the message for a command line that the parser rejects: the flag, what was expected and what was
// found.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error);

// Returns the problem with the text of a number, or "". The parser alone would clamp numbers that are too
// large and read 010 as octal 8. Both are rejected, as are "inf" and "nan". Text that is not a number has no
// problem here; the parser reports it.
std::string number_problem(const std::string& text);

}  // namespace gpt
