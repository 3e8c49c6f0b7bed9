#include "help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/parse.h"
#include "command.h"
#include "config_flags.h"
#include "foreign_names.h"
#include "model/presets.h"
#include "options.h"
#include "output.h"
#include "report/utf8_text.h"
#include "shown_flags.h"

namespace gpt {
namespace {

constexpr int kWidth = 80;
constexpr int kMostLabel = 27;  // longer labels get a line of their own

// The flags in the short help of commands with many flags.
const std::map<std::string, std::vector<std::string>>& short_helps() {
  static const std::map<std::string, std::vector<std::string>> list = {
      {"train",
       {"--preset", "--data", "--tokenizer", "--out", "--resume", "--init-from", "--steps", "--batch-size",
        "--n-ctx", "--n-layer", "--n-head", "--n-embd", "--lr", "--dtype", "--patience", "--seed",
        "--threads"}},
      {"plan",
       {"--preset", "--data", "--tokenizer", "--steps", "--batch-size", "--n-ctx", "--n-layer", "--n-head",
        "--n-embd", "--dtype", "--memory", "--fit", "--json", "--threads"}},
      {"sweep",
       {"--preset", "--data", "--tokenizer", "--over", "--minutes", "--flops", "--steps", "--seeds",
        "--iso-params", "--out", "--resume", "--dry-run", "--json", "--threads"}},
      {"info",
       {"--compare", "--summary", "--schedule", "--batch-size", "--devices", "--json", "--n-layer",
        "--n-head", "--n-embd", "--n-ctx"}},
      {"bench",
       {"--mode", "--dtype", "--kv-dtype", "--rows", "--tokens", "--sequences", "--depth", "--repeat",
        "--batch-size", "--n-ctx", "--n-layer", "--n-embd", "--json", "--threads"}},
      {"generate",
       {"--prompt", "--prompt-file", "--max-tokens", "--temperature", "--top-k", "--top-p", "--greedy",
        "--stop", "--json-schema", "--n", "--beams", "--seed", "--dtype", "--json", "--threads"}},
      {"chat",
       {"--system", "--template", "--max-tokens", "--temperature", "--top-k", "--top-p", "--greedy", "--seed",
        "--dtype", "--json", "--threads"}},
      {"serve",
       {"--host", "--port", "--api-key-file", "--adapter", "--template", "--n-ctx", "--sequences",
        "--kv-memory", "--dtype", "--access-log", "--log-requests", "--max-queue", "--threads"}},
  };
  return list;
}

// Returns the flags in the short help of a command. Empty: all flags.
std::vector<std::string> common_flags(const CLI::App& app) {
  const auto found = short_helps().find(command_of(app));
  return found == short_helps().end() ? std::vector<std::string>{} : found->second;
}

// Breaks a text at spaces into lines of at most `width` columns. A longer word gets its own line.
std::vector<std::string> wrapped(const std::string& text, int width) {
  std::vector<std::string> lines(1);
  for (const std::string_view view : split(text, ' ')) {
    const std::string word(view);
    if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > width)
      lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

// Formats "  LABEL   text" with the text in its own column.
std::string entry(const std::string& label, const std::string& text, int label_width) {
  std::string out = "  " + label;
  const int column = 2 + label_width + 2;
  const bool fits = display_width(label) <= label_width;
  bool first = true;
  for (const std::string& line : wrapped(text, kWidth - column)) {
    if (first && fits) {
      out += std::string(static_cast<size_t>(column - 2 - display_width(label)), ' ') + line + "\n";
    } else {
      out += (first ? "\n" : "") + std::string(static_cast<size_t>(column), ' ') + line + "\n";
    }
    first = false;
  }
  return out;
}

struct Entry {
  std::string label, text;
};

std::string section(const std::string& title, const std::vector<Entry>& entries) {
  int width = 0;
  for (const Entry& e : entries) {
    if (display_width(e.label) <= kMostLabel) width = std::max(width, display_width(e.label));
  }
  std::string out = "\n" + title + ":\n";
  for (const Entry& e : entries)
    out += entry(e.label, e.text, width);
  return out;
}

// Formats a flag with its value: "-o, --out DIR".
std::string flag_label(const CLI::Option& option) {
  std::string label;
  for (const std::string& name : option.get_snames())
    label += (label.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames())
    label += (label.empty() ? "--" : ", --") + name;
  std::string type = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
  type = type.substr(0, type.find(':'));  // the text after the colon describes checks of the parser
  if (type == "INT") type = "N";
  if (type == "FLOAT") type = "X";
  return label + (type.empty() ? "" : " " + type);
}

std::string description(const CLI::Option& option, const CLI::App& app) {
  const std::string value = option.get_default_str();
  return show_flags(option.get_description(), app) + (value.empty() ? "" : " (" + value + ")");
}

bool takes_many(const CLI::Option& option) {
  const int most = option.get_items_expected_max();
  return option.get_allow_extra_args() || (most > 2 && most < CLI::detail::expected_max_vector_size);
}

std::string positional_label(const CLI::Option& option) {
  return option.get_name(true, false) + (takes_many(option) ? " ..." : "");
}

std::string usage(const CLI::App& app, const std::string& name) {
  std::string line = "Usage: " + name;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->get_positional(); }))
    line += " [" + positional_label(*option) + "]";
  if (!commands_of(app).empty()) line += " COMMAND";
  return line + " [flags]\n";
}

std::string title_of(const std::string& group) {
  return group == "Options" ? "flags" : group;
}

bool is_help(const CLI::App& app, const CLI::Option* option) {
  return option == app.get_help_ptr() || option == app.get_help_all_ptr();
}

// Lists the flags by group. The short form has a single group, with the flags and order of the command's
// list.
std::string flags(const CLI::App& app, bool all) {
  const std::vector<std::string> common = common_flags(app);
  if (!all && !common.empty()) {
    std::vector<Entry> entries;
    for (const std::string& name : common) {
      const CLI::Option* o = app.get_option_no_throw(name);
      if (o != nullptr && !o->get_positional()) entries.push_back({flag_label(*o), description(*o, app)});
    }
    return section("flags", entries);
  }
  std::string out;
  for (const std::string& group : app.get_groups()) {
    std::vector<Entry> entries;
    for (const CLI::Option* o : app.get_options()) {
      if (o->get_group() == group && o->nonpositional() && !o->get_positional() && !is_help(app, o))
        entries.push_back({flag_label(*o), description(*o, app)});
    }
    if (!entries.empty()) out += section(title_of(group), entries);
  }
  return out;
}

std::string positionals(const CLI::App& app) {
  std::vector<Entry> entries;
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* o) { return o->get_positional(); })) {
    std::string label = positional_label(*option);
    if (option->nonpositional()) label += ", " + flag_label(*option);
    entries.push_back({label, description(*option, app)});
  }
  return entries.empty() ? "" : section("arguments", entries);
}

std::string subcommands(const CLI::App& app) {
  std::string out;
  std::vector<std::string> groups;
  const auto subs = commands_of(app);
  for (const CLI::App* sub : subs) {
    if (std::ranges::find(groups, sub->get_group()) == groups.end()) groups.push_back(sub->get_group());
  }
  for (const std::string& group : groups) {
    std::vector<Entry> entries;
    for (const CLI::App* sub : subs) {
      if (sub->get_group() == group) entries.push_back({sub->get_name(), sub->get_description()});
    }
    out += section(group == "Subcommands" ? "commands" : group, entries);
  }
  return out;
}

// Breaks a command line that is too long before a flag, and continues it on further lines.
std::string command_lines(std::string line) {
  std::string out;
  while (display_width(line) > kWidth) {
    const size_t cut = line.rfind(" --", kWidth - 2);
    const size_t begin = line.find_first_not_of(' ');
    if (cut == std::string::npos || cut <= begin) break;
    out += line.substr(0, cut) + " \\\n";
    line = std::string(6, ' ') + line.substr(cut + 1);
  }
  return out + line + "\n";
}

// Formats an example and its explanation. The explanation gets its own line if both do not fit on one line.
std::string example(const std::string& line) {
  if (display_width(line) <= kWidth) return line + "\n";
  const size_t gap = line.rfind("  ");
  const size_t begin = line.find_first_not_of(' ');
  if (gap == std::string::npos || gap < begin) return command_lines(line);
  const std::string command = line.substr(0, line.find_last_not_of(' ', gap) + 1);
  const std::string note = line.substr(gap + 2);
  if (display_width(command) + 3 + display_width(note) <= kWidth) return command + "   " + note + "\n";
  std::string out = command_lines(command);
  for (const std::string& part : wrapped(note, kWidth - 6))
    out += std::string(6, ' ') + part + "\n";
  return out;
}

// Formats a footer. Indented lines are examples and are kept; other lines are prose and are wrapped.
std::string footer(const std::string& text) {
  std::string out, prose;
  const auto end_prose = [&] {
    for (const std::string& line : wrapped(prose, kWidth)) {
      if (!line.empty()) out += line + "\n";
    }
    prose.clear();
  };
  for (const std::string_view view : lines_of(text)) {
    const std::string line(view);
    if (!line.empty() && line.front() != ' ') {
      prose += (prose.empty() ? "" : " ") + line;
      if (line.ends_with(':')) end_prose();
      continue;
    }
    end_prose();
    out += line.empty() ? "\n" : example(line);
  }
  end_prose();
  return out;
}

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    const bool all = mode == CLI::AppFormatMode::All;
    std::string out = fmt::format("{}\n\n{}", app->get_description(), usage(*app, name));
    out += positionals(*app) + subcommands(*app);
    const bool root = app->get_parent() == nullptr;
    if (!root) out += flags(*app, all);
    if (!app->get_footer().empty()) out += "\n" + footer(app->get_footer());
    if (!all && !common_flags(*app).empty())
      out += fmt::format("\n'{} --help-all' shows all {} flags.\n", name, app->get_options().size());
    return out;
  }
};

constexpr const char* kBash = R"(_gpt() {
  local IFS=$'\n'
  COMPREPLY=($(gpt completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o filenames -F _gpt gpt
)";

constexpr const char* kFish =
    R"(complete -c gpt -a '(gpt completion words (commandline -opc)[2..-1] (commandline -ct))'
)";

bool is_value(std::string_view word) {
  return !word.empty() &&
         word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-.") == std::string::npos;
}

// Adds the choices of "a|b|c" to `values`. Parts in capitals, such as FILE, are placeholders and are skipped.
void add_choices(const std::string& text, std::vector<std::string>& values) {
  for (const std::string& value : CLI::detail::split(text, '|')) {
    if (is_value(value)) values.push_back(value);
  }
}

// Adds the choices in a description, for example in "grpo: exact|regex|number".
void add_described_choices(const std::string& description, std::vector<std::string>& values) {
  for (const std::string& word : CLI::detail::split(description, ' ')) {
    if (word.find('|') != std::string::npos) add_choices(word, values);
  }
}

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

// Returns true if the value of an option can be a path.
bool takes_path(const CLI::Option& option) {
  const std::string text =
      option.get_type_name() + " " + (option.get_positional() ? option.get_name(true) : "");
  for (const char* kind :
       {"FILE", "DIR", "PATH", "MODEL", "DATA", "RUN", "SWEEP", "IN", "OUT", "TOKENIZER"}) {
    if (text.find(kind) != std::string::npos) return true;
  }
  // Config keys whose values are paths.
  constexpr const char* kPathKeys[] = {"data", "val-data", "tokenizer"};
  return std::ranges::any_of(kPathKeys, [&](const char* key) { return option.check_lname(key); });
}

// Returns the possible values of an option that start with `last`.
std::vector<std::string> values_of(const CLI::Option& option, const std::string& last) {
  std::vector<std::string> values;
  if (option.check_lname("preset")) return preset_names();
  values = spec_of(option).choices;
  if (values.empty()) add_choices(option.get_type_name(), values);
  if (values.empty()) add_described_choices(option.get_description(), values);
  if (option.check_lname("quant")) values = quant_names();
  const std::string help = option.get_description();
  if (help.starts_with("preset,") || option.check_lname("compare")) {
    for (const std::string& name : preset_names())
      values.push_back(name);
  }
  if (takes_path(option)) {
    for (const std::string& path : paths_that_begin(last))
      values.push_back(path);
  }
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

// Returns the shell script that calls complete_words.
std::string completion_script(const std::string& shell) {
  check_choice("completion", shell, {"bash", "zsh", "fish"});
  if (shell == "fish") return kFish;
  return (shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" : "") + std::string(kBash);
}

// Returns the complete help of a command as a page for man(1).
std::string man_page(const CLI::App& app) {
  std::string name;
  for (const CLI::App* a = &app; a != nullptr; a = a->get_parent())
    name = a->get_name() + (name.empty() ? "" : " " + name);
  std::string title = name;
  std::ranges::replace(title, ' ', '-');
  std::string page = fmt::format(".TH {} 1\n.SH NAME\n{} \\- {}\n.SH DESCRIPTION\n.nf\n", title, title,
                                 app.get_description());
  for (const std::string& line :
       CLI::detail::split(HelpFormatter().make_help(&app, name, CLI::AppFormatMode::All), '\n')) {
    if (line.starts_with('.') || line.starts_with('\'')) page += "\\&";
    for (const char c : line)
      page += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
    page += '\n';
  }
  return page + ".fi\n";
}

constexpr const char* kHelpFooter = R"(Examples:
  gpt completion bash > ~/.local/share/bash-completion/completions/gpt
  gpt completion fish > ~/.config/fish/completions/gpt.fish
  gpt completion man data pack | man -l -)";

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  return std::make_shared<HelpFormatter>();
}

namespace {

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
  CLI::App* app =
      add_command(root, "completion", "completion script for bash, zsh or fish; man pages", kHelpFooter);
  app->add_option("SHELL", *words, "bash|zsh|fish; or man and a command, for its page");
  return {app, [words, &root] {
            if (words->empty())
              fail_usage("SHELL is missing: bash, zsh or fish, or man for a page of man(1)");
            write_output(words->front() == "man" ? man_page(named_command(root, *words))
                                                 : completion_script(words->front()));
            return 0;
          }};
}

}  // namespace gpt
