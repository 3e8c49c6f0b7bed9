// The program: finds the subcommand, runs it, and turns every error into one line and an exit status.

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <new>
#include <sstream>

#include "base/error.h"
#include "base/suggest.h"
#include "command.h"
#include "config_flags.h"
#include "foreign_names.h"
#include "gpt/gpt.hpp"
#include "help.h"
#include "interrupt.h"
#include "output.h"
#include "parse_problem.h"
#include "report/utf8_text.h"
#include "world.h"

namespace gpt {
namespace {

constexpr const char* kMainFooter = R"(Examples:
  gpt train tales --preset tiny --out run
  gpt generate run "Once upon a time"
  gpt eval run tales

'gpt help COMMAND' describes a command. Flags have environment variables (GPT_MAX_TOKENS of --max-tokens); GPT_ISA=ref|avx2|avx512|avx512bf16|amx forces the instruction set. Exit status: 0 ok, 1 failure, 2 usage, 130 interrupted.)";

// The commands of the overview, by what one wants to do.
constexpr struct {
  const char *group, *commands;
} kGroups[] = {{"prepare", "data|tokenizer|plan"},
               {"train", "train|launch|finetune|sweep|report"},
               {"use", "generate|chat|serve|classify|convert"},
               {"look inside and measure", "info|trace|eval|verify|bench"},
               {"for your shell", "completion"}};

// Arguments that the parser found no place for are mistakes; say which, and what was probably meant.
void reject_remaining(const CLI::App& app, const std::string& command) {
  const std::string where = command == "gpt" ? "" : command.substr(std::strlen("gpt ")) + ": ";
  std::vector<std::string> remaining = app.remaining();
  if (remaining.empty()) return;
  const auto flag =
      std::ranges::find_if(remaining, [](const std::string& a) { return a.rfind('-', 0) == 0; });
  const std::string word = flag == remaining.end() ? remaining.front() : flag->substr(0, flag->find('='));
  if (flag != remaining.end()) {
    fail_usage("{}unknown flag {}{}; see {} --help", where, word.substr(0, 64),
               did_you_mean(word, flag_names(app)), command);
  }
  const bool takes_text = app.get_option_no_throw("PROMPT") != nullptr ||
                          app.get_option_no_throw("TEXT") != nullptr ||
                          app.get_option_no_throw("MESSAGE") != nullptr;
  fail_usage("{}unexpected argument \"{}\"; {}see {} --help", where, word.substr(0, 64),
             takes_text ? "a text of several words goes in quotes; " : "", command);
}

// Flags that were not given take their value from the environment. Flags of config keys have a place of
// their own in the order of precedence and are left to the command (their group starts with "config").
void apply_environment(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->count() > 0 || option->get_lnames().empty() || option->get_group().rfind("config", 0) == 0 ||
        option == app.get_help_ptr() || option == app.get_help_all_ptr())
      continue;
    const std::string name = variable_name(option->get_lnames().front());
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') continue;
    try {
      option->add_result(value);
      option->run_callback();
    } catch (const CLI::ParseError&) {
      fail_usage("the environment variable {} has no valid value for --{}: \"{}\"", name,
                 option->get_lnames().front(), std::string(value).substr(0, 64));
    }
  }
}

// The chain of selected commands, innermost last.
CLI::App& selected(CLI::App& root, std::string& name) {
  CLI::App* app = &root;
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    name += " " + app->get_name();
  }
  return *app;
}

// Where in the words of `gpt launch` those begin that it starts: at "--", or else at the name of a command
// that several processes can share, or else, for a message, at the first word that is no flag and no value of
// one.
std::vector<std::string>::iterator launched_in(std::vector<std::string>& words) {
  constexpr std::string_view kWithValue[] = {"-n", "--restart", "--hostfile"};
  const auto first = [&](const std::function<bool(const std::string&)>& is_it) {
    for (auto at = words.begin() + 2; at != words.end(); ++at) {
      if (is_it(*at) && std::ranges::count(kWithValue, *(at - 1)) == 0) return at;
    }
    return words.end();
  };
  const auto begin = first([](const std::string& word) {
    return word == "--" || std::ranges::count(shared_commands(), word) > 0;
  });
  return begin != words.end() ? begin : first([](const std::string& word) { return !word.starts_with('-'); });
}

// What `gpt launch` starts is not for its parser.
std::vector<std::string> split_launched(std::vector<std::string>& words) {
  if (words.size() < 2 || words[1] != "launch") return {};
  const auto begin = launched_in(words);
  if (begin == words.end()) return {};
  const std::vector<std::string> launched(begin + (*begin == "--" ? 1 : 0), words.end());
  words.erase(begin, words.end());
  return launched;
}

std::vector<Command> add_commands(CLI::App& root, const std::vector<std::string>& words,
                                  const std::vector<std::string>& launched) {
  const std::string command_line = CLI::detail::join(words, " ");
  std::vector<Command> commands = add_data_commands(root);
  for (const Command& command : add_tokenizer_commands(root))
    commands.push_back(command);
  for (const Command& command :
       {add_plan_command(root), add_train_command(root, command_line), add_launch_command(root, launched),
        add_finetune_command(root, command_line), add_sweep_command(root, command_line),
        add_report_command(root), add_generate_command(root), add_chat_command(root), add_serve_command(root),
        add_convert_command(root), add_info_command(root), add_trace_command(root), add_eval_command(root),
        add_classify_command(root), add_verify_command(root), add_bench_command(root),
        add_completion_command(root)})
    commands.push_back(command);
  for (const auto& [group, names] : kGroups) {
    for (const std::string& command : CLI::detail::split(names, '|'))
      root.get_subcommand(command)->group(group);
  }
  return commands;
}

int run(std::vector<std::string> typed) {
  const std::vector<std::string> launched = split_launched(typed);
  CLI::App root("gpt: train, run and look inside GPT language models", "gpt");
  root.set_version_flag("-V,--version", "gpt.cpp " GPT_VERSION);
  root.set_help_all_flag("--help-all", "help with every flag");
  root.formatter(help_formatter());
  root.require_subcommand(0, 1);
  root.allow_extras();
  root.footer(kMainFooter);
  const std::vector<Command> commands = add_commands(root, typed, launched);
  check_numbers(root);
  if (typed.size() > 2 && typed[1] == "completion" && typed[2] == "words") {  // anything may follow
    write_output(complete_words(root, {typed.begin() + 3, typed.end()}));
    return 0;
  }
  std::vector<std::string> words = translate_arguments(root, typed);
  words.erase(words.begin());
  std::ranges::reverse(words);  // as the parser takes them
  try {
    root.parse(words);
  } catch (const CLI::Success& success) {  // --help, --version
    std::ostringstream text;
    root.exit(success, text, text);
    write_output(text.str());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::string name = "gpt";
    const CLI::App& app = selected(root, name);
    fail_usage("{}; see {} --help", parse_problem(app, error), name);
  }
  std::string name = "gpt";
  CLI::App& app = selected(root, name);
  if (&app != &root) reject_remaining(root, "gpt");
  reject_remaining(app, name);
  apply_environment(app);
  const bool is_shared = std::ranges::any_of(
      shared_commands(), [&](const std::string& shared) { return name == "gpt " + shared; });
  if (!is_shared) require_one_process(name);
  for (const Command& command : commands) {
    if (command.app == &app) return command.run();
  }
  write_note(app.help(name.substr(0, name.size() - std::min(name.size(), app.get_name().size() + 1))));
  return 2;
}

// Parameters of the libraries are flags here.
std::string with_flag(const UsageError& error) {
  std::string flag = error.parameter();
  if (flag.empty()) return error.what();
  std::replace(flag.begin(), flag.end(), '_', '-');
  return "--" + flag + (error.what() + flag.size());
}

// What the library threw is what its parts threw, which name flags.
int run_command(const std::vector<std::string>& typed) {
  try {
    return run(typed);
  } catch (const gptcpp::Error& error) {
    std::rethrow_if_nested(error);
    if (error.object().empty()) throw;
    throw UsageError(error.what());
  }
}

int report_error(const char* message, int status) {
  std::string line(message);
  for (char& c : line) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  write_error("gpt: " + visible_text(line) + "\n");
  return status;
}

int run_all(const std::vector<std::string>& typed) {
  try {
    const int status = run_command(typed);
    leave_world();
    return is_first_process() ? status : 0;
  } catch (const OutputClosed&) {
    return 0;
  } catch (const Interrupted& error) {
    return report_error(error.what(), kInterruptedStatus);
  } catch (const UsageError& error) {
    return report_error(with_flag(error).c_str(), 2);
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string what = "cannot read " + error.path1().string() + ": " + error.code().message();
    return report_error(what.c_str(), 1);
  } catch (const std::bad_alloc&) {
    return report_error("out of memory; use a smaller model, batch or context", 1);
  } catch (const std::exception& error) {
    return report_error(error.what(), 1);
  }
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  gpt::install_signal_defaults();
  gpt::install_lost_page_handler();
  const int status = gpt::run_all({argv, argv + argc});
  gpt::end_world(status);
  return status;
}
