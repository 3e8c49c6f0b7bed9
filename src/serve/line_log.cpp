#include "serve/line_log.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/error.h"

namespace gpt::serve {
namespace {

constexpr size_t kMostWaiting = 4096;  // maximum number of queued lines
constexpr int kLook = 100;             // milliseconds between two checks for a shutdown

}  // namespace

void LineLog::Close::operator()(std::FILE* file) const {
  if (file != stderr) std::fclose(file);
}

LineLog::LineLog(const std::string& path, std::function<void(const std::string& text)> note)
    : path_(path),
      file_(path.empty() ? stderr : std::fopen(path.c_str(), "a")),
      note_(std::move(note)),
      writing_(kMostWaiting) {
  if (file_ == nullptr) fail("cannot open {} for the access log: {}", path, std::strerror(errno));
}

LineLog::~LineLog() {
  ending_ = true;
}

void LineLog::write(const std::string& line) {
  writing_.add([this, text = line + "\n"] { put(text); });
}

// Writes in pieces of PIPE_BUF bytes, which a pipe that is ready accepts without blocking.
void LineLog::put(std::string_view text) {
  const int fd = ::fileno(file_.get());
  std::string whole;
  if (torn_) text = whole = "\n" + std::string(text);  // the previous line is incomplete
  while (!text.empty() && wait_until_ready(fd)) {
    const ssize_t n = ::write(fd, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (n < 0 && errno != EINTR && errno != EAGAIN) return lose(std::strerror(errno));
    if (n <= 0) continue;
    text.remove_prefix(static_cast<size_t>(n));
    torn_ = !text.empty();
  }
  losing_ = false;
}

// Returns false if the server shuts down and nobody reads.
bool LineLog::wait_until_ready(int fd) {
  pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
  while (!given_up_ && ::poll(&ready, 1, kLook) == 0)
    given_up_ = ending_;
  return !given_up_;
}

void LineLog::lose(const char* why) {
  if (!losing_ && note_)
    note_(fmt::format("cannot write the access log {}: {}; log lines are lost until writing works again\n",
                      path_, why));
  losing_ = true;
}

}  // namespace gpt::serve
