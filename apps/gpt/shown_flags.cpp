#include "shown_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "report/next_step.h"

namespace gpt {
namespace {

const CLI::App* running_command = nullptr;

bool has_flag(const CLI::App& command, const std::string& flag) {
  return command.get_option_no_throw(flag) != nullptr;
}

// Options of the library whose flags have other names.
constexpr struct {
  std::string_view key;
  const char* flag;
} kOtherNames[] = {{"chat_format", "--template"}, {"policy", "--context"}};

// "" if the command has none.
std::string flag_of_key(std::string_view key, const CLI::App& command) {
  const std::string flag = flag_of(key);
  if (has_flag(command, flag)) return flag;
  for (const auto& [name, other] : kOtherNames) {
    if (name == key && has_flag(command, other)) return other;
  }
  return "";
}

bool is_in_key(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

std::string show_flags(std::string_view text, const CLI::App& command) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '`' ? text.find('`', at + 1) : text.npos;
    const std::string_view key = end == text.npos ? "" : text.substr(at + 1, end - at - 1);
    const bool is_key = !key.empty() && std::ranges::all_of(key, is_in_key);
    const std::string flag = is_key ? flag_of_key(key, command) : "";
    if (flag.empty()) {
      out += text[at++];
    } else {
      out += flag;
      at = end + 1;
    }
  }
  return out;
}

std::string show_flags(std::string_view text) {
  return running_command == nullptr ? std::string(text) : show_flags(text, *running_command);
}

void set_running_command(const CLI::App& command) {
  running_command = &command;
}

std::string flag_of_parameter(std::string_view parameter) {
  const std::string flag = running_command == nullptr ? "" : flag_of_key(parameter, *running_command);
  return flag.empty() ? flag_of(parameter) : flag;
}

}  // namespace gpt
