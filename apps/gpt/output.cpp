#include "output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "report/next_step.h"
#include "report/utf8_text.h"

namespace gpt {

void write_output(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) throw OutputClosed();
    if (n < 0) fail("cannot write to standard output: {}", std::strerror(errno));
    text.remove_prefix(static_cast<size_t>(n));
  }
}

void write_note(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

void write_next(const std::vector<std::string>& words) {
  write_note(visible_text(next_line(words), true));
}

std::vector<std::string> train_command(const std::vector<std::string>& data, const std::string& tokenizer) {
  std::vector<std::string> words = {"gpt", "train"};
  words.insert(words.end(), data.begin(), data.end());
  words.insert(words.end(), {"--tokenizer", tokenizer, "--preset", "tiny", "--out", "run"});
  return words;
}

bool output_is_terminal() {
  return ::isatty(STDOUT_FILENO) == 1;
}
bool notes_are_on_terminal() {
  return ::isatty(STDERR_FILENO) == 1;
}

}  // namespace gpt
