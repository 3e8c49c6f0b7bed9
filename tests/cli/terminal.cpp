#include "terminal.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "run_gpt.h"

namespace {

constexpr int kPatience = 60'000;  // ms; only a program that hangs takes that long

}  // namespace

Terminal::Terminal(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  child_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
  if (child_ == 0) become_gpt(arguments, environment);
  if (child_ < 0)
    throw std::runtime_error(std::string("this test needs a pseudo-terminal: ") + std::strerror(errno));
}

Terminal::~Terminal() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  if (terminal_ >= 0) ::close(terminal_);
}

void Terminal::type(const std::string& text) const {
  EXPECT_EQ(::write(terminal_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

bool Terminal::read_some() {
  pollfd ready{.fd = terminal_, .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, kPatience) <= 0) return false;
  std::array<char, 4096> bytes;
  const ssize_t n = ::read(terminal_, bytes.data(), bytes.size());  // fails once the program has ended
  if (n > 0) unread_.append(bytes.data(), static_cast<size_t>(n));
  return n > 0;
}

std::string Terminal::wait_for(const std::string& text) {
  size_t at = unread_.find(text);
  while (at == std::string::npos) {
    if (!read_some()) {
      ADD_FAILURE() << "waited for \"" << text << "\", found \"" << unread_ << '"';
      return std::exchange(unread_, "");
    }
    at = unread_.find(text);
  }
  const std::string found = unread_.substr(0, at + text.size());
  unread_.erase(0, found.size());
  return found;
}

void Terminal::wait_for_output() {
  while (unread_.empty()) {
    if (!read_some()) {
      ADD_FAILURE() << "waited for output, found none";
      return;
    }
  }
}

int Terminal::end() {
  while (read_some()) {
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child_, &status, 0), child_);
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
