#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace gpt {

// The libraries name a setting in backquotes with its key, as `n_head` 12. Returns the text as people read it
// on the command line: --n-head 12 if the command has this flag, else unchanged.
std::string show_flags(std::string_view text, const CLI::App& command);

// The same for the running command, which main sets after parsing; before that the text stays as it is. A
// word in backquotes that the user has typed, in a path for example, stays too.
std::string show_flags(std::string_view text);
void set_running_command(const CLI::App& command, const std::vector<std::string>& typed);

// The flag of a parameter that an error names: --n-head of n_head.
std::string flag_of_parameter(std::string_view parameter);

}  // namespace gpt
