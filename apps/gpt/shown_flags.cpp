#include "shown_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "report/next_step.h"

namespace gpt {
namespace {

using Flags = std::set<std::string>;

std::vector<std::string> typed_words;  // words of the command line that contain a backquote
// Flags of the running command, copied because errors are shown after the parser is destroyed.
Flags running_flags;

Flags flags_of(const CLI::App& command) {
  Flags flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames())
      flags.insert("--" + name);
  }
  return flags;
}

// Library options whose flags have different names.
constexpr struct {
  std::string_view key;
  const char* flag;
} kOtherNames[] = {{"chat_format", "--template"}, {"policy", "--context"}};

// Returns the flag of a key, or "" if the command does not have it.
std::string flag_of_key(std::string_view key, const Flags& flags) {
  const std::string flag = flag_of(key);
  if (flags.contains(flag)) return flag;
  for (const auto& [name, other] : kOtherNames) {
    if (name == key && flags.contains(other)) return other;
  }
  return "";
}

bool is_in_key(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_typed(std::string_view quoted) {
  return std::ranges::any_of(typed_words,
                             [&](const std::string& word) { return word.find(quoted) != word.npos; });
}

std::string shown(std::string_view text, const Flags& flags) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '`' ? text.find('`', at + 1) : text.npos;
    const std::string_view key = end == text.npos ? "" : text.substr(at + 1, end - at - 1);
    const bool is_key =
        !key.empty() && std::ranges::all_of(key, is_in_key) && !is_typed(text.substr(at, end + 1 - at));
    const std::string flag = is_key ? flag_of_key(key, flags) : "";
    if (flag.empty()) {
      out += text[at++];
    } else {
      out += flag;
      at = end + 1;
    }
  }
  return out;
}

}  // namespace

std::string show_flags(std::string_view text, const CLI::App& command) {
  return shown(text, flags_of(command));
}

std::string show_flags(std::string_view text) {
  return shown(text, running_flags);
}

void set_running_command(const CLI::App& command, const std::vector<std::string>& typed) {
  running_flags = flags_of(command);
  std::ranges::copy_if(typed, std::back_inserter(typed_words),
                       [](const std::string& word) { return word.find('`') != word.npos; });
}

std::string flag_of_parameter(std::string_view parameter) {
  const std::string flag = flag_of_key(parameter, running_flags);
  return flag.empty() ? flag_of(parameter) : flag;
}

}  // namespace gpt
