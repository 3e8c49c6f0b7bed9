#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace gpt {

// What is wrong with a command line that the parser refuses, in the words of this program: the flag, what was
// expected and what was found.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error);

}  // namespace gpt
