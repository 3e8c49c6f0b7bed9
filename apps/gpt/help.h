#pragma once

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class FormatterBase;
}  // namespace CLI

namespace gpt {

// Help of two lengths, at most 80 columns wide: --help has the flags that one uses, --help-all every one.
// Both show what a flag is when it is not given.
std::shared_ptr<CLI::FormatterBase> help_formatter();

// What a shell offers for the last of `words`, which follow the program's name: commands, flags, and the
// values of flags that have a few. One a line; nothing where file names are wanted.
std::string complete_words(const CLI::App& root, const std::vector<std::string>& words);

}  // namespace gpt
