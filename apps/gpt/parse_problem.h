#pragma once

#include <string>

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace gpt {

// What is wrong with a command line that the parser refuses, in the words of this program: the flag, what was
// expected and what was found.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error);

// Lets the numbers of all flags of a command, and of those below it, mean what is written: the parser alone
// turns what is too large into the largest number there is, and 010 into 8. Both are refused, and so are
// "inf" and "nan". Config keys are left out: they have checks of their own.
void check_numbers(CLI::App& app);

// Whether an option's value is a number, by the name of its type in the help.
bool takes_a_number(const CLI::Option& option);

}  // namespace gpt
