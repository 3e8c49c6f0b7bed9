#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpt {

// What a shell offers for the last of `words`, which follow the program's name: commands, flags, and the
// values of flags that have a few. One a line; nothing where file names are wanted.
std::string complete_words(const CLI::App& root, const std::vector<std::string>& words);

// The script that makes a shell ask complete_words; throws UsageError for a shell other than bash, zsh and
// fish.
std::string completion_script(const std::string& shell);

// The complete help of a command as a page for man(1).
std::string man_page(const CLI::App& app);

}  // namespace gpt
