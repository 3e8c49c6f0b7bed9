#include "input.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace gpt {
namespace {

constexpr size_t kMaxInput = size_t{4} << 30;
constexpr size_t kMaxLine = size_t{256} << 20;
constexpr size_t kBlock = size_t{4} << 20;

// Appends what has arrived, at most `most` bytes; false at the end.
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

}  // namespace

std::string read_input() {
  std::string text;
  while (read_more(text, kBlock)) {
    if (text.size() > kMaxInput)
      fail("standard input has more than {} bytes; give it in parts, or as lines with --jsonl", kMaxInput);
  }
  return text;
}

void for_each_input_lines(const std::function<bool(std::string_view lines, int64_t line)>& f) {
  std::string text;
  int64_t line = 1;
  while (read_more(text, kBlock)) {
    const size_t end = text.rfind('\n') + 1;  // 0 if there is none
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

}  // namespace gpt
