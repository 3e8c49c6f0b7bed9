// The entry point of the program. Finds and runs the subcommand, and turns every error into one line and an
// exit status.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <set>
#include <sstream>

#include "base/problems.h"
#include "base/suggest.h"
#include "command.h"
#include "completion.h"
#include "config_flags.h"
#include "foreign_names.h"
#include "gpt/gpt.hpp"
#include "help.h"
#include "interrupt.h"
#include "model/config_alias.h"
#include "model/model_files.h"
#include "options.h"
#include "output.h"
#include "parse_problem.h"
#include "report/utf8_text.h"
#include "run/checkpoint.h"
#include "shown_flags.h"
#include "world.h"

namespace gpt {
namespace {

constexpr const char* kMainFooter = R"(Examples:
  gpt train tales --preset tiny --out run
  gpt generate run "Once upon a time"
  gpt eval run tales

'gpt help COMMAND' describes a command. GPT_TOP_K=20 sets --top-k. GPT_ISA=ref|avx2|avx512|avx512bf16|amx sets the instruction set. Exit status: 0 success, 1 failure, 2 usage error, 130 interrupted.)";

// The commands of the overview, grouped by purpose.
constexpr struct {
  const char *group, *commands;
} kGroups[] = {{"prepare", "data|tokenizer|plan"},
               {"train", "train|launch|finetune|sweep|report"},
               {"use", "generate|chat|serve|classify|convert"},
               {"inspect and measure", "info|trace|eval|verify|bench"},
               {"shell", "completion"}};

// Throws invalid_argument for a word that is neither a flag nor a valid argument.
[[noreturn]] void reject_argument(const CLI::App& app, const std::string& word, const std::string& command,
                                  const std::string& where) {
  const bool takes_text = app.get_option_no_throw("PROMPT") != nullptr ||
                          app.get_option_no_throw("TEXT") != nullptr ||
                          app.get_option_no_throw("MESSAGE") != nullptr;
  fail_usage("{}unexpected argument \"{}\"; {}see {} --help", where, word.substr(0, 64),
             takes_text ? "put a text of several words in quotes; " : "", command);
}

// Reports words that the parser did not recognize, with suggestions.
void reject_remaining(const CLI::App& app, const std::string& command, Problems& problems) {
  const std::string where = command == "gpt" ? "" : command.substr(std::strlen("gpt ")) + ": ";
  std::vector<std::string> remaining = app.remaining();
  bool has_flags = false;
  for (const std::string& argument : remaining) {
    if (!argument.starts_with('-')) continue;
    const std::string flag = argument.substr(0, argument.find('='));
    has_flags = true;
    problems.collect([&] {
      fail_usage("{}unknown flag {}{}; see {} --help", where, flag.substr(0, 64),
                 did_you_mean(flag, flag_names(app)), command);
    });
  }
  if (!remaining.empty() && !has_flags)
    problems.collect([&] { reject_argument(app, remaining.front(), command, where); });
}

// Reports the values that the parser rejects. The parser stops at the first one, which is `error`.
void reject_values(CLI::App& app, const CLI::ParseError& error, const std::string& command,
                   Problems& problems) {
  std::set<std::string> said;
  const auto add = [&](const CLI::ParseError& e) {
    const std::string problem = parse_problem(app, e);
    if (said.insert(problem).second)
      problems.collect([&] { fail_usage("{}; see {} --help", problem, command); });
  };
  for (CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    try {
      option->run_callback();
    } catch (const CLI::ParseError& e) {
      add(e);
    }
  }
  add(error);
}

// Returns the variables that have set options, by option: "GPT_OUT" for "--out".
std::map<std::string, std::string>& used_variables() {
  static std::map<std::string, std::string> used;
  return used;
}

bool is_resumed(const CLI::App& app) {
  const CLI::Option* resume = app.get_option_no_throw("--resume");
  return resume != nullptr && resume->count() > 0;
}

// Sets an option from its variable.
void apply_variable(const CLI::App& app, CLI::Option& option, const std::string& name, const char* value) {
  if (is_resumed(app) && !spec_of(option).on_resume)
    return write_note(fmt::format("note: {}={} has no effect: a resumed run keeps its settings\n", name,
                                  visible_text(std::string(value).substr(0, 64))));
  used_variables()["--" + option.get_lnames().front()] = name;
  try {
    option.add_result(value);
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    fail_usage("{}", parse_problem(app, error));
  }
  check_values(option, option.get_name());
}

// Sets options that were not given from the environment, and checks the values of given options. Config
// keys are skipped: the command applies them, because they have their own place in the order of precedence.
void apply_environment(CLI::App& app, Problems& problems) {
  for (CLI::Option* option : app.get_options()) {
    if (spec_of(*option).is_config_key) continue;
    if (option->count() > 0) {
      problems.collect([&] { check_values(*option, option->get_name()); });
      continue;
    }
    const std::string name = variable_of(*option);
    const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') continue;
    problems.collect([&] { apply_variable(app, *option, name, value); });
  }
}

void add_variables(const CLI::App& app, std::set<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    if (const std::string name = variable_of(*option); !name.empty()) names.insert(name);
  }
  for (const CLI::App* sub : commands_of(app))
    add_variables(*sub, names);
}

// Writes a note about GPT_ variables that no command reads, because they are probably mistakes.
void note_unknown_variables(const CLI::App& root) {
  constexpr std::string_view kPrefix = "GPT_";
  // Tests and scripts use GPT_FAULT_POINT, GPT_QUANTS, GPT_REFERENCE, GPT_SHADOW and GPT_SHAKESPEARE_URL.
  std::set<std::string> known = {"GPT_ISA",    "GPT_RANK_TIMEOUT", "GPT_COLLECTIVE_TIMEOUT",
                                 kLaunchedBy,  "GPT_FAULT_POINT",  "GPT_SHADOW",
                                 "GPT_QUANTS", "GPT_REFERENCE",    "GPT_SHAKESPEARE_URL"};
  add_variables(root, known);
  const std::vector<std::string> names(known.begin(), known.end());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view setting = *variable;
    const std::string name(setting.substr(0, setting.find('=')));
    if (!name.starts_with(kPrefix) || known.contains(name)) continue;
    if (name == "GPT_FORCE" || name == "GPT_INSECURE") {
      write_note(fmt::format("note: {} has no effect: give {} on the command line\n", name,
                             name == "GPT_FORCE" ? "--force" : "--insecure"));
      continue;
    }
    write_note(visible_text(fmt::format("note: unknown environment variable {}{}", name.substr(0, 64),
                                        did_you_mean(name, names))) +
               "\n");
  }
}

// Writes a note about the model that a command takes from each run folder. A value can be NAME=PATH or
// PATH=SCALE.
void note_run_models(const CLI::App& app) {
  std::set<std::string> said;
  for (const CLI::Option* option : app.get_options()) {
    const ValueKind kind = spec_of(*option).kind;
    if (kind != ValueKind::model && kind != ValueKind::model_or_preset && kind != ValueKind::model_or_dtype)
      continue;
    for (const std::string& value : option->results()) {
      for (const std::string& path :
           {value, value.substr(value.find('=') + 1), value.substr(0, value.rfind('='))}) {
        if (said.contains(path)) continue;
        const std::string run = run_model_note(path), config = config_note(path);
        if (!run.empty()) write_note(visible_text(run) + "\n");
        if (!config.empty()) write_note(visible_text("note: " + path + ": " + config) + "\n");
        said.insert(path);
      }
    }
  }
}

// Returns the innermost selected command, and appends the names of the selected commands to `name`.
CLI::App& selected(CLI::App& root, std::string& name) {
  CLI::App* app = &root;
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    name += " " + app->get_name();
  }
  return *app;
}

// Returns the position of the launched command in the words of `gpt launch`. The command starts at "--", or
// else at the name of a command that can be distributed. If there is neither, returns the first word that is
// neither a flag nor the value of a flag, so that the error message can name it.
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

// Removes the launched command from the words of `gpt launch`, whose parser must not see it, and returns it.
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
  CLI::App root("train, run and inspect GPT language models", "gpt");
  define(root.set_version_flag("-V,--version", "gpt.cpp " GPT_VERSION),
         {.help = "Print the version and exit", .aliases = "-v", .environment = false});
  define(root.set_help_all_flag("--help-all"),
         {.help = "Print help with all options and exit", .environment = false});
  spec_of(*root.get_help_ptr()) = {.help = "Print help and exit", .environment = false};
  root.formatter(help_formatter());
  root.require_subcommand(0, 1);
  root.allow_extras();
  root.footer(kMainFooter);
  const std::vector<Command> commands = add_commands(root, typed, launched);
  if (typed.size() > 2 && typed[1] == "completion" && typed[2] == "words") {  // any words may follow
    write_output(complete_words(root, {typed.begin() + 3, typed.end()}));
    return 0;
  }
  Problems problems;
  std::vector<std::string> words = translate_arguments(root, typed, problems);
  words.erase(words.begin());
  std::ranges::reverse(words);  // the parser expects reversed order
  try {
    root.parse(words);
  } catch (const CLI::Success& success) {  // thrown for --help and --version
    std::ostringstream text;
    root.exit(success, text, text);
    write_output(text.str());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::string name = "gpt";
    CLI::App& app = selected(root, name);
    reject_values(app, error, name, problems);
  }
  std::string name = "gpt";
  CLI::App& app = selected(root, name);
  set_running_command(app, typed);
  if (&app != &root) reject_remaining(root, "gpt", problems);
  reject_remaining(app, name, problems);
  apply_environment(app, problems);
  const auto command = std::ranges::find(commands, &app, &Command::app);
  if (command != commands.end() && command->check) {
    // The value of an unknown flag may have become a positional argument, such as a file that does not exist.
    // If there are problems already, only usage errors of the check are therefore reported.
    problems.empty() ? void(problems.collect(command->check)) : problems.collect_usage(command->check);
  }
  problems.report();
  note_unknown_variables(root);
  note_run_models(app);
  const bool is_shared = std::ranges::any_of(
      shared_commands(), [&](const std::string& shared) { return name == "gpt " + shared; });
  if (!is_shared) require_one_process(name);
  if (command != commands.end()) return command->run();
  write_note(app.help(name.substr(0, name.size() - std::min(name.size(), app.get_name().size() + 1))));
  return 2;
}

// Returns the message of an error with its library parameter shown as a flag.
std::string with_flag(const Error& error) {
  const std::string& parameter = error.object();
  if (parameter.empty() || !std::string_view(error.what()).starts_with(parameter + ":")) return error.what();
  return flag_of_parameter(parameter) + (error.what() + parameter.size());
}

// Runs a command. An error of the library is replaced by its nested cause, whose message can be shown with
// flags.
int run_command(const std::vector<std::string>& typed) {
  try {
    return run(typed);
  } catch (const gptcpp::Error& error) {
    std::rethrow_if_nested(error);
    if (error.object().empty()) throw;
    const bool is_missing = error.code() == gptcpp::Code::not_found;
    throw Error(error.what(), is_missing ? ErrorCode::not_found : ErrorCode::invalid_argument);
  }
}

// Returns the config key that a word of the command line sets: "lr" for --lr=1 or --learning-rate. Returns ""
// for other words.
std::string config_key_of_flag(std::string word) {
  if (!word.starts_with("--")) return "";
  word = word.substr(2, word.find('=') - 2);
  std::ranges::replace(word, '-', '_');
  const std::string key = key_of_alias(word);
  return key.empty() ? word : key;
}

// Returns the source of a config key's value: the flag as typed, --over of gpt sweep, or the environment
// variable. Returns "" if the value comes from a file or a default.
std::string source_of_key(const std::string& key, const std::vector<std::string>& typed) {
  for (const std::string& word : typed) {
    if (word.starts_with(key + "=")) return "--over " + key;
  }
  for (const std::string& word : typed) {
    if (config_key_of_flag(word) == key) return word.substr(0, word.find('='));
  }
  const std::string variable = variable_name(key);
  const char* const value = std::getenv(variable.c_str());
  return value == nullptr || *value == '\0' ? "" : variable;
}

// Replaces each `config key "lr"` in a message, and the flag of a config key at its start, by the flag or
// variable that set the value.
std::string with_sources(std::string message, const std::vector<std::string>& typed) {
  constexpr std::string_view kMark = "config key \"";
  for (size_t at = message.find(kMark); at != std::string::npos; at = message.find(kMark, at + 1)) {
    const size_t begin = at + kMark.size(), end = message.find('"', begin);
    if (end == std::string::npos) break;
    // The text after "unknown" is not a key.
    if (std::string_view(message).substr(0, at).ends_with("unknown ")) continue;
    const std::string source = source_of_key(message.substr(begin, end - begin), typed);
    if (!source.empty()) message.replace(at, end + 1 - at, source);
  }
  const std::string flag = message.substr(0, message.find_first_of(": =,")), key = config_key_of_flag(flag);
  if (std::ranges::find(config_keys(), key, &KeyInfo::name) == config_keys().end()) return message;
  const std::string source = source_of_key(key, typed);
  return source.starts_with("GPT_") ? source + message.substr(flag.size()) : message;
}

// Replaces the option at the start of a message by the variable that has set it.
std::string with_variable(const std::string& message) {
  const std::string flag = message.substr(0, message.find_first_of(": =,"));
  const auto used = used_variables().find(flag);
  return used == used_variables().end() ? message : used->second + message.substr(flag.size());
}

int report_error(const char* message, int status) {
  std::string line = with_variable(message);
  for (char& c : line) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  write_error("gpt: " + visible_text(line) + "\n");
  return status;
}

int report_usage(const Error& error, const std::vector<std::string>& typed) {
  return report_error(with_sources(with_flag(error), typed).c_str(), 2);
}

// Prints each error on its own line.
int report_all(const Errors& several, const std::vector<std::string>& typed) {
  std::set<std::string> shown;
  for (const std::exception_ptr& error : several.errors()) {
    try {
      std::rethrow_exception(error);
    } catch (const Error& one) {
      if (!shown.insert(one.what()).second) continue;  // the parser and the command can find the same problem
      one.code() == ErrorCode::invalid_argument ? report_usage(one, typed)
                                                : report_error(with_sources(one.what(), typed).c_str(), 2);
    }
  }
  return 2;
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
  } catch (const Errors& errors) {
    return report_all(errors, typed);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument) return report_usage(error, typed);
    return report_error(with_sources(error.what(), typed).c_str(), 1);
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string what = "cannot read " + error.path1().string() + ": " + error.code().message();
    return report_error(what.c_str(), 1);
  } catch (const std::bad_alloc&) {
    return report_error("out of memory; use a smaller model, batch size or context", 1);
  } catch (const std::exception& error) {
    return report_error(with_sources(error.what(), typed).c_str(), 1);
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
