#include "completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "command.h"
#include "foreign_names.h"
#include "help.h"
#include "model/presets.h"
#include "options.h"
#include "output.h"

namespace gpt {
namespace {

constexpr const char* kBash = R"(_gpt() {
  local IFS=$'\n'
  COMPREPLY=($(gpt completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _gpt gpt
)";

constexpr const char* kFish =
    R"(complete -c gpt -a '(gpt completion words (commandline -opc)[2..-1] (commandline -ct))'
)";

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// The values that a flag can have, from "a|b|c" in its help; empty if it can have others.
std::vector<std::string> values_of(const CLI::Option& option) {
  if (option.check_lname("preset")) return preset_names();
  std::vector<std::string> values;
  const std::string type = option.get_type_name();
  if (type.find('|') == std::string::npos) return values;
  for (const std::string& value : CLI::detail::split(type, '|')) {
    const bool is_kind = !value.empty() && value.front() >= 'A' && value.front() <= 'Z';  // FILE, DIR, NAME
    if (!is_kind) values.push_back(value);
  }
  return values;
}

// The command that words name, behind "man".
const CLI::App& named_command(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  for (size_t i = 1; i < words.size(); ++i) {
    const auto subs = commands_of(*app);
    const auto sub = std::ranges::find_if(subs, [&](const CLI::App* s) { return s->get_name() == words[i]; });
    if (sub == subs.end())
      fail_usage("completion man: unknown command \"{}\"; see gpt --help", words[i].substr(0, 64));
    app = *sub;
  }
  return *app;
}

constexpr const char* kFooter = R"(Examples:
  gpt completion bash > ~/.local/share/bash-completion/completions/gpt
  gpt completion fish > ~/.config/fish/completions/gpt.fish
  gpt completion man data pack | man -l -)";

}  // namespace

std::string complete_words(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  const std::string last = words.empty() ? "" : words.back(),
                    before = words.size() < 2 ? "" : words[words.size() - 2];
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    for (const CLI::App* sub : commands_of(*app)) {
      if (sub->get_name() == words[i]) app = sub;
    }
  }
  std::vector<std::string> candidates;
  const CLI::Option* option = before.starts_with('-') ? app->get_option_no_throw(before) : nullptr;
  if (option != nullptr && option->get_items_expected_max() > 0) {
    candidates = values_of(*option);
  } else if (last.starts_with('-')) {
    candidates = own_flag_names(*app);
  } else {
    for (const CLI::App* sub : commands_of(*app))
      candidates.push_back(sub->get_name());
  }
  std::string out;
  for (const std::string& candidate : candidates) {
    if (candidate.starts_with(last)) out += candidate + "\n";
  }
  return out;
}

std::string completion_script(const std::string& shell) {
  check_choice("completion", shell, {"bash", "zsh", "fish"});
  if (shell == "fish") return kFish;
  return (shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : "") + std::string(kBash);
}

std::string man_page(const CLI::App& app) {
  std::string name;
  for (const CLI::App* a = &app; a != nullptr; a = a->get_parent())
    name = a->get_name() + (name.empty() ? "" : " " + name);
  std::string title = name;
  std::ranges::replace(title, ' ', '-');
  std::string page = fmt::format(".TH {} 1\n.SH NAME\n{} \\- {}\n.SH DESCRIPTION\n.nf\n", title, title,
                                 app.get_description());
  for (const std::string& line : CLI::detail::split(full_help(app, name), '\n')) {
    if (line.starts_with('.') || line.starts_with('\'')) page += "\\&";
    for (const char c : line)
      page += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
    page += '\n';
  }
  return page + ".fi\n";
}

Command add_completion_command(CLI::App& root) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* app = root.add_subcommand("completion", "completion script for bash, zsh or fish; man pages");
  app->allow_extras();
  app->footer(kFooter);
  app->add_option("SHELL", *words, "bash, zsh or fish; or man and a command, for its page");
  return {app, [words, &root] {
            if (words->empty())
              fail_usage("SHELL is missing: bash, zsh or fish, or man for a page of man(1)");
            write_output(words->front() == "man" ? man_page(named_command(root, *words))
                                                 : completion_script(words->front()));
            return 0;
          }};
}

}  // namespace gpt
