#include "gpt_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "run_gpt.h"
#include "support/patience.h"

GptProcess::GptProcess(const std::vector<std::string>& arguments, const std::function<void()>& prepare) {
  static int count = 0;
  notes_path_ = (std::filesystem::path(testing::TempDir()) /
                 ("notes" + std::to_string(::getpid()) + "-" + std::to_string(++count)))
                    .string();
  child_ = ::fork();
  if (child_ != 0) return;
  if (!std::freopen("/dev/null", "r", stdin) || !std::freopen("/dev/null", "w", stdout) ||
      !std::freopen(notes_path_.c_str(), "w", stderr))
    ::_exit(127);
  if (prepare) prepare();
  become_gpt(arguments, {});
}

GptProcess::~GptProcess() {
  if (!has_ended()) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  std::filesystem::remove(notes_path_);
}

bool GptProcess::has_ended() {
  if (!ended_) ended_ = ::waitpid(child_, &status_, WNOHANG) == child_;
  return ended_;
}

bool GptProcess::wait_until(const std::function<bool()>& ready) {
  const auto end = std::chrono::steady_clock::now() + gpt::test::kPatience;
  while (!ready()) {
    if (has_ended()) return ready();
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool GptProcess::wait_for_file(const std::string& path) {
  return wait_until([&] { return std::filesystem::exists(path); });
}

bool GptProcess::wait_for_note(const std::string& text) {
  return wait_until([&] { return notes().find(text) != std::string::npos; });
}

void GptProcess::send(int signal) const {
  ::kill(child_, signal);
}

int GptProcess::end() {
  if (!ended_) {
    EXPECT_EQ(::waitpid(child_, &status_, 0), child_);
    ended_ = true;
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
}

std::string GptProcess::notes() const {
  std::ostringstream text;
  text << std::ifstream(notes_path_, std::ios::binary).rdbuf();
  return text.str();
}
