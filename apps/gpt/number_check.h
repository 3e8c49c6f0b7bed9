#pragma once

namespace CLI {
class App;
}

namespace gpt {

// Lets the numbers of all flags of a command, and of those below it, mean what is written: the parser alone
// turns what is too large into the largest number there is, and 010 into 8. Both are refused, and so are
// "inf" and "nan". Config keys are left out: they have checks of their own.
void check_numbers(CLI::App& app);

}  // namespace gpt
