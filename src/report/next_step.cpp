#include "report/next_step.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/ascii.h"
#include "base/ranges.h"

namespace gpt {
namespace {

// Returns true if the character has no special meaning in any shell.
bool is_plain(char c) {
  constexpr std::string_view kPlain = "@%+=:,./_-";
  return is_ascii_alnum(c) || kPlain.find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_quoted(std::string_view word) {
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return std::string(word);
  std::string out = "'";
  for (const char c : word)
    c == '\'' ? out += R"('\'')" : out += c;
  return out + "'";
}

std::string flag_of(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string shell_command(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(transformed(words, shell_quoted), " "));
}

std::string next_line(const std::vector<std::string>& words) {
  return "next: " + shell_command(words) + "\n";
}

std::string next_line(const std::string& program, const std::vector<std::string>& words) {
  return "next: " + program + " " + shell_command(words) + "\n";
}

}  // namespace gpt
