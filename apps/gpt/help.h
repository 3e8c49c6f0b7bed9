#pragma once

#include <memory>
#include <string>

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

}  // namespace gpt
