#pragma once

#include <stdexcept>

namespace gpt {

inline constexpr int kInterruptedStatus = 130;
// Signals within this many seconds count as one request. `timeout` signals both the process and its group,
// and a closing terminal sends SIGHUP from both the kernel and the shell.
inline constexpr double kSameRequest = 0.3;

// Makes SIGINT (Ctrl-C) and SIGUSR1 end the program with status 130. mpirun forwards SIGUSR1 to processes
// that may still be starting. Ignores SIGPIPE, so that writing to a closed pipe returns an error instead.
void install_signal_defaults();

// Makes SIGINT, SIGTERM and SIGHUP end the program with status 130. Used by commands that have nothing to
// save yet.
void install_ending_signals();

// Installs handlers for a graceful interrupt. The first SIGINT, SIGTERM or SIGHUP (closed terminal) makes
// `interrupted` return true and prints `what`, for example "finishing the step and saving". The second SIGINT
// or SIGTERM ends the program. SIGHUP stays ignored if it was ignored at program start (nohup). SIGUSR1,
// which mpirun forwards to all of its processes, only ever counts as the first request. what: a string
// literal, or null to print nothing. distributed: SIGTERM then comes from mpirun, which ends all ranks when
// one has died; the message says so.
void install_graceful_interrupt(const char* what, bool distributed = false);
bool interrupted();

// Thrown to end work that was interrupted. main catches it, prints the message and returns status 130.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// During the lifetime of this object, the first Ctrl-C makes `interrupted` return true and calls a function,
// without printing anything. The second Ctrl-C ends the program.
class QuietInterrupt {
 public:
  explicit QuietInterrupt(void (*then)());  // the function must be async-signal-safe
  // Restores the SIGINT handler of install_signal_defaults and resets `interrupted` to false.
  ~QuietInterrupt();
  QuietInterrupt(const QuietInterrupt&) = delete;
  QuietInterrupt& operator=(const QuietInterrupt&) = delete;
};

// Handles SIGBUS, which occurs when a mapped page cannot be read: another program has truncated the file, or
// the disk has failed. The handler prints a line that names the file and ends the program with status 1.
void install_lost_page_handler();

}  // namespace gpt
