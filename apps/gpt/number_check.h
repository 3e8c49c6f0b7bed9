#pragma once

namespace CLI {
class App;
class Option;
}

namespace gpt {

// Lets the numbers of all flags of a command, and of those below it, mean what is written: the parser alone
// turns what is too large into the largest number there is, and 010 into 8. Both are refused, and so are
// "inf" and "nan". Config keys are left out: they have checks of their own.
void check_numbers(CLI::App& app);

// Whether an option's value is a number, by the name of its type in the help.
bool takes_a_number(const CLI::Option& option);

}  // namespace gpt
