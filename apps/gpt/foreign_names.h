#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpt {

class Problems;

// Translates a command line with the names of other programs to the names of this program:
// "--learning_rate=1e-3" to "--lr=1e-3", "--temp" to "--temperature", "--dtype bfloat16" to "--dtype bf16",
// "help train" to "train --help". Values and unknown words are unchanged. words[0] is the program. Throws
// invalid_argument for an unknown command. Flags of other programs that have a different meaning here are
// removed and added to `problems`, with a message that says what to use instead.
std::vector<std::string> translate_arguments(const CLI::App& root, const std::vector<std::string>& words,
                                             Problems& problems);

// Returns the config key for a flag name, which can also be the name in a different program: n_layer for
// "layers" and "num-layers". Returns unknown names unchanged.
std::string config_key_named(const CLI::App& app, std::string name);

// Returns the name of a command without the program: "tokenizer train" for gpt tokenizer train.
std::string command_of(const CLI::App& app);
// Returns the subcommand of `app` that a word names, or null.
const CLI::App* find_command(const CLI::App& app, const std::string& word);
// Returns all subcommands of a command, whether or not they were typed.
std::vector<const CLI::App*> commands_of(const CLI::App& app);

// Return the long names of a command's flags. flag_names also returns the accepted names from other programs.
std::vector<std::string> own_flag_names(const CLI::App& app);
std::vector<std::string> flag_names(const CLI::App& app);

}  // namespace gpt
