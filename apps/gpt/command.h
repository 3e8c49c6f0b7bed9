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
  CLI::App* app = nullptr;   // its definition
  std::function<int()> run;  // runs it after parsing and returns the exit status
  // Throws Errors for missing and wrong flags, before `run` and together with what the parser refuses;
  // or none: `run` checks them one by one.
  std::function<void()> check = {};
};

// Each adds one subcommand to the program.
// command_line: as typed, for the run's report.
Command add_train_command(CLI::App& root, const std::string& command_line);
Command add_finetune_command(CLI::App& root, const std::string& command_line);
Command add_sweep_command(CLI::App& root, const std::string& command_line);
// words: those behind "--", a command of this program.
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
std::vector<Command> add_data_commands(CLI::App& root);       // of `gpt data ...`
std::vector<Command> add_tokenizer_commands(CLI::App& root);  // of `gpt tokenizer ...`

}  // namespace gpt
