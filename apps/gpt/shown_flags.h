#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace gpt {

// Replaces settings by flags. Library messages name a setting by its key in backquotes, for example `n_head`
// 12. This function returns --n-head 12 if the command has that flag, else the unchanged text.
std::string show_flags(std::string_view text, const CLI::App& command);

// Replaces settings by the flags of the running command, which main sets after parsing. Before that, returns
// the text unchanged. Words in backquotes that the user has typed, for example in a path, are never replaced.
std::string show_flags(std::string_view text);
void set_running_command(const CLI::App& command, const std::vector<std::string>& typed);

// Returns the flag of a parameter that an error names: --n-head for n_head.
std::string flag_of_parameter(std::string_view parameter);

}  // namespace gpt
