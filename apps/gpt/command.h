#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpt {

// A subcommand.
struct Command {
  CLI::App* app = nullptr;   // parser definition of the command
  std::function<int()> run;  // runs the command after parsing and returns the exit status
  // Called before `run`. Throws Errors for missing and invalid flags, which are reported together with the
  // errors of the parser. If empty, `run` itself checks the flags one by one.
  std::function<void()> check = {};
};

// Each of the following functions adds one subcommand to the program.
// command_line: the command line as typed, for the report of the run.
Command add_train_command(CLI::App& root, const std::string& command_line);
Command add_finetune_command(CLI::App& root, const std::string& command_line);
Command add_sweep_command(CLI::App& root, const std::string& command_line);
// words: the words after "--", which are a command of this program.
Command add_launch_command(CLI::App& root, const std::vector<std::string>& words);
Command add_generate_command(CLI::App& root);
Command add_chat_command(CLI::App& root);
Command add_serve_command(CLI::App& root);
Command add_eval_command(CLI::App& root);
Command add_classify_command(CLI::App& root);
Command add_verify_command(CLI::App& root);
Command add_trace_command(CLI::App& root);
Command add_info_command(CLI::App& root);
Command add_plan_command(CLI::App& root);
Command add_bench_command(CLI::App& root);
Command add_convert_command(CLI::App& root);
Command add_report_command(CLI::App& root);
Command add_completion_command(CLI::App& root);
std::vector<Command> add_data_commands(CLI::App& root);       // the `gpt data ...` commands
std::vector<Command> add_tokenizer_commands(CLI::App& root);  // the `gpt tokenizer ...` commands

}  // namespace gpt
