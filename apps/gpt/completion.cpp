#include "completion.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "command.h"
#include "command_doc.h"
#include "foreign_names.h"
#include "model/presets.h"
#include "options.h"
#include "output.h"

namespace gpt {
namespace {

// The scripts run the program under the name that was typed, because it can be installed as gptcpp.
constexpr const char* kBash = R"(_gptcpp() {
  local IFS=$'\n' program="${COMP_WORDS[0]/#\~\//$HOME/}"
  COMPREPLY=($("$program" completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o filenames -F _gptcpp gpt gptcpp
)";

// The last line runs the function if zsh has loaded the file from fpath, and registers it after `source`.
constexpr const char* kZsh = R"(#compdef gpt gptcpp
_gptcpp() {
  local program=${~${(Q)words[1]}}
  local -a found folders others
  found=("${(@f)$("$program" completion words "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -z ${found[1]} ]]; then
    _files
    return
  fi
  local word
  for word in $found; do
    if [[ -d $word ]]; then folders+=("$word"); else others+=("$word"); fi
  done
  local status_of=1
  (( $#others )) && compadd -- $others && status_of=0
  (( $#folders )) && compadd -f -q -S / -- $folders && status_of=0
  return $status_of
}
if [[ ${funcstack[1]} == _gpt* ]]; then _gptcpp "$@"; else compdef _gptcpp gpt gptcpp; fi
)";

constexpr const char* kFish = R"(function __gptcpp_words
  set -l typed (commandline -opc)
  $typed[1] completion words $typed[2..-1] (commandline -ct) 2>/dev/null
end
complete -c gpt -a '(__gptcpp_words)'
complete -c gptcpp -a '(__gptcpp_words)'
)";

// Returns the files and folders whose paths start with `last`.
std::vector<std::string> paths_that_begin(const std::string& last) {
  const std::filesystem::path typed = last;
  const std::string folder = typed.parent_path().string(), name = typed.filename().string();
  std::vector<std::string> paths;
  if (!is_folder(folder.empty() ? "." : folder)) return paths;
  for (const FolderEntry& entry : list_folder(folder.empty() ? "." : folder)) {
    if (!entry.name.starts_with(name) || (name.empty() && entry.name.starts_with('.'))) continue;
    paths.push_back((typed.parent_path() / entry.name).string());
  }
  return paths;
}

// Returns the possible values of an option that start with `last`.
std::vector<std::string> values_of(const CLI::Option& option, const std::string& last) {
  const OptionSpec& spec = spec_of(option);
  std::vector<std::string> values = spec.choices;
  const auto append = [&](const std::vector<std::string>& more) {
    values.insert(values.end(), more.begin(), more.end());
  };
  if (spec.kind == ValueKind::preset || spec.kind == ValueKind::model_or_preset) append(preset_names());
  if (spec.kind != ValueKind::plain && spec.kind != ValueKind::preset && spec.kind != ValueKind::dtype)
    append(paths_that_begin(last));
  return values;
}

// Returns the command named by the words after "man".
const CLI::App& named_command(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  for (size_t i = 1; i < words.size(); ++i) {
    app = find_command(*app, words[i]);
    if (app == nullptr)
      fail_usage("completion man: unknown command \"{}\"; see gpt --help", words[i].substr(0, 64));
  }
  return *app;
}

std::string completion_text(const CLI::App& root, const std::vector<std::string>& words) {
  const std::string& kind = words.front();
  check_choice("completion", kind, {"bash", "zsh", "fish", "man", "markdown"});
  if (kind == "bash") return kBash;
  if (kind == "zsh") return kZsh;
  if (kind == "fish") return kFish;
  if (kind == "man") return man_page(named_command(root, words));
  const std::string page = words.size() > 1 ? words[1] : "";
  check_choice("completion markdown", page, {"cli", "config"});
  return page == "cli" ? markdown_of_commands(root) : markdown_of_config();
}

constexpr const char* kCompletionFooter = R"(Examples:
  gpt completion bash > ~/.local/share/bash-completion/completions/gpt
  gpt completion zsh > ~/.zfunc/_gpt                  with fpath+=~/.zfunc in ~/.zshrc
  gpt completion fish > ~/.config/fish/completions/gpt.fish
  gpt completion man data pack | man -l -
  gpt completion markdown cli > docs/cli.md           or config, for docs/config.md)";

// A flag value that is being typed: the flag, and the part of the last word that belongs to the value.
struct TypedValue {
  const CLI::Option* option = nullptr;
  std::string typed, prefix;  // prefix of each candidate, "--dtype=" if the shell expects it
};

// Finds the flag value in "--dtype b", in "--dtype=b", or in "--dtype" "=" "b", which is how bash splits it.
TypedValue typed_value(const CLI::App& app, const std::vector<std::string>& words) {
  const auto word = [&](size_t from_end) {
    return words.size() < from_end ? std::string() : words[words.size() - from_end];
  };
  std::string flag = word(2), typed = word(1), prefix;
  const size_t equals = typed.find('=');
  if (typed.starts_with("--") && equals != std::string::npos) {
    flag = typed.substr(0, equals);
    prefix = typed.substr(0, equals + 1);
    typed.erase(0, equals + 1);
  } else if (typed == "=") {
    typed.clear();
  } else if (flag == "=") {
    flag = word(3);
  }
  const CLI::Option* option = flag.starts_with('-') ? app.get_option_no_throw(flag) : nullptr;
  if (option != nullptr && option->get_items_expected_max() == 0) option = nullptr;
  return {option, typed, prefix};
}

// Returns the possible values of positional arguments.
std::vector<std::string> argument_values(const CLI::App& app, const std::string& last) {
  std::vector<std::string> values;
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* o) { return o->get_positional(); })) {
    for (const std::string& value : values_of(*option, last)) {
      if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
  }
  return values;
}

}  // namespace

std::string complete_words(const CLI::App& root, const std::vector<std::string>& typed) {
  std::vector<std::string> words = typed;
  if (words.size() > 1 && words.front() == "help") words.erase(words.begin());
  const CLI::App* app = &root;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (const CLI::App* sub = find_command(*app, words[i])) app = sub;
  }
  TypedValue value = typed_value(*app, words);
  std::vector<std::string> candidates;
  if (value.option != nullptr) {
    candidates = values_of(*value.option, value.typed);
  } else if (value.typed.starts_with('-')) {
    candidates = own_flag_names(*app);
  } else {
    for (const CLI::App* sub : commands_of(*app))
      candidates.push_back(sub->get_name());
    for (const std::string& argument : argument_values(*app, value.typed))
      candidates.push_back(argument);
  }
  std::string out;
  for (const std::string& candidate : candidates) {
    if (candidate.starts_with(value.typed)) out += value.prefix + candidate + "\n";
  }
  return out;
}

Command add_completion_command(CLI::App& root) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* app = add_command(root, "completion", "print shell completion, man pages and reference pages",
                              kCompletionFooter);
  add(*app,
      {.flags = "SHELL",
       .help = "bash, zsh or fish; man and a command for its man page; or markdown and cli or config for a "
               "page of docs/",
       .choices = {"bash", "zsh", "fish", "man", "markdown"},
       .is_open = true},
      *words);
  return {app, [words, &root] {
            if (words->empty()) fail_usage("SHELL is missing: expected bash, zsh, fish, man or markdown");
            write_output(completion_text(root, *words));
            return 0;
          }};
}

}  // namespace gpt
