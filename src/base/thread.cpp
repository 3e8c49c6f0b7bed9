#include "base/thread.h"

#include <csignal>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace gpt {

std::thread start_thread(const std::string& what, std::function<void()> function) {
  try {
    return std::thread(std::move(function));
  } catch (const std::system_error& error) {
    fail(
        "{}: cannot start another thread ({}); use fewer threads, stop other programs or raise the limits "
        "(ulimit -u, ulimit -v)",
        what, error.code().message());
  }
}

std::thread start_thread_without_signals(const std::string& what, std::function<void()> function) {
  struct Blocked {
    Blocked() {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Blocked() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  };
  const Blocked blocked;
  return start_thread(what, std::move(function));
}

}  // namespace gpt
