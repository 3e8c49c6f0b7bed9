#pragma once

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class FormatterBase;
class Option;
}  // namespace CLI

namespace gpt {

// Help of two lengths, at most 80 columns wide: --help has the flags that one uses, --help-all every one.
// Both show what a flag is when it is not given.
std::shared_ptr<CLI::FormatterBase> help_formatter();

// The long help of a command, called `name`.
std::string full_help(const CLI::App& app, const std::string& name);

// A flag as help shows it: "-o, --out DIR".
std::string flag_label(const CLI::Option& option);

// What a shell offers for the last of `words`, which follow the program's name: commands, flags, and the
// values of flags that have a few. One a line; nothing where file names are wanted.
std::string complete_words(const CLI::App& root, const std::vector<std::string>& words);

// The script that makes a shell ask complete_words; throws UsageError for a shell other than bash, zsh and
// fish.
std::string completion_script(const std::string& shell);

// The complete help of a command as a page for man(1).
std::string man_page(const CLI::App& app);

}  // namespace gpt
