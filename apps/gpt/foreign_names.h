#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpt {

class Problems;

// The command line with what users of other programs type turned into our names: "--learning_rate=1e-3" into
// "--lr=1e-3", "--temp" into "--temperature", "--dtype bfloat16" into "--dtype bf16", "help train" into
// "train --help". Values and what is unknown stay as they are. words[0] is the program. Throws
// invalid_argument for a command that does not exist. Flags of other programs that mean something else here
// are left out and added to the problems: the message says what to use instead.
std::vector<std::string> translate_arguments(const CLI::App& root, const std::vector<std::string>& words,
                                             Problems& problems);

// The config key that a command's flags mean by a name, ours or another program's: n_layer of "layers" and
// "num-layers". What is unknown stays as it is.
std::string config_key_named(const CLI::App& app, std::string name);

// "tokenizer train" of gpt tokenizer train.
std::string command_of(const CLI::App& app);
// The command below one that a word names, or null.
const CLI::App* find_command(const CLI::App& app, const std::string& word);
// The commands below one, whether they were typed or not.
std::vector<const CLI::App*> commands_of(const CLI::App& app);

// The long names of a command's flags; and those with all foreign names that it understands.
std::vector<std::string> own_flag_names(const CLI::App& app);
std::vector<std::string> flag_names(const CLI::App& app);

}  // namespace gpt
