#include "input.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "report/next_step.h"

namespace gpt {
namespace {

constexpr size_t kMaxInput = size_t{4} << 30;
constexpr size_t kMaxLine = size_t{256} << 20;
constexpr size_t kBlock = size_t{4} << 20;

// Appends the bytes that have arrived, at most `most`. Returns false at the end of the input.
bool read_more(std::string& text, size_t most) {
  const size_t before = text.size();
  text.resize(before + most);
  ssize_t n = 0;
  do {
    n = ::read(STDIN_FILENO, text.data() + before, most);
  } while (n < 0 && errno == EINTR);
  text.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
  if (n < 0) fail("cannot read standard input: {}", std::strerror(errno));
  return n > 0;
}

[[noreturn]] void refuse_ids(const std::string& source, int64_t line, const std::string& problem) {
  if (line == 0) fail_usage("{}: {}", source, problem);
  fail("{}:{}: {}", source, line, problem);
}

}  // namespace

std::string read_input() {
  std::string text;
  while (read_more(text, kBlock)) {
    if (text.size() > kMaxInput)
      fail("standard input has more than {} bytes; split it, or use lines with --jsonl", kMaxInput);
  }
  return text;
}

std::string note_of_file(const std::string& text, const char* flag) {
  if (path_kind(text) != PathKind::file) return "";
  return fmt::format("note: {} is read as text; use {} to read the file of this name\n", shell_quoted(text),
                     flag);
}

void for_each_input_lines(const std::function<bool(std::string_view lines, int64_t line)>& f) {
  std::string text;
  int64_t line = 1;
  while (read_more(text, kBlock)) {
    const size_t end = text.rfind('\n') + 1;  // 0 if there is no newline
    if (end == 0 && text.size() > kMaxLine)
      fail("standard input:{}: expected a line of at most {} bytes, found a longer one", line, kMaxLine);
    if (end == 0) continue;
    const std::string_view lines = std::string_view(text).substr(0, end);
    if (!f(lines, line)) return;
    line += std::ranges::count(lines, '\n');
    text.erase(0, end);
  }
  if (!text.empty()) f(text, line);
}

std::vector<int32_t> parse_ids(std::string_view text, const std::string& source, int64_t line) {
  const int64_t per_line = line > 0 ? 1 : 0;
  std::vector<int32_t> ids;
  // `comma` is true after a comma that no id has followed yet. `on_line` is true if the current line has an
  // id.
  bool comma = false, on_line = false;
  const auto refuse_comma = [&] {
    refuse_ids(source, line, "expected a token id before and after every comma, found none");
  };
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == ',' && (comma || !on_line)) refuse_comma();
    if (c == '\n') line += per_line, on_line = false;
    if (c == ',') comma = true;
    if (c == ' ' || c == ',' || c == '\n' || c == '\r' || c == '\t') {
      ++at;
      continue;
    }
    const std::string_view word = text.substr(at, text.find_first_of(" ,\n\r\t", at) - at);
    const auto id = parse_number<int32_t>(word);
    if (!id || *id < 0)
      refuse_ids(source, line,
                 fmt::format("expected token ids separated by spaces or commas, found \"{}\"",
                             printable_text(word, 40)));
    ids.push_back(*id);
    comma = false;
    on_line = true;
    at += word.size();
  }
  if (comma && line == 0) refuse_comma();
  return ids;
}

}  // namespace gpt
