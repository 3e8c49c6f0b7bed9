#pragma once

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class FormatterBase;
}  // namespace CLI

namespace gpt {

// Returns the formatter of help texts, which are at most 80 columns wide. --help shows the most used flags
// and --help-all shows all of them. Both show the default of each flag.
std::shared_ptr<CLI::FormatterBase> help_formatter();

// Returns the shell completions of the last word in `words`, one per line. `words` excludes the program's
// name. The completions are commands, flags, and the values of flags with few values. Returns nothing where
// the shell should complete file names.
std::string complete_words(const CLI::App& root, const std::vector<std::string>& words);

}  // namespace gpt
