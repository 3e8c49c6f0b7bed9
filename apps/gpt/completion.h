#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpt {

// Returns the shell completions of the last word in `words`, one per line. `words` excludes the program's
// name. The completions are commands, options, and the values of options with known values. Returns nothing
// where the shell should complete file names.
std::string complete_words(const CLI::App& root, const std::vector<std::string>& words);

}  // namespace gpt
