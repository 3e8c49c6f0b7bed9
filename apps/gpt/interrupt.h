#pragma once

#include <stdexcept>

namespace gpt {

inline constexpr int kInterruptedStatus = 130;
// One request may come as two signals within so many seconds: `timeout` signals the process and its group,
// and a terminal that closes sends SIGHUP from the kernel and from the shell.
inline constexpr double kSameRequest = 0.3;

// Without further ado Ctrl-C, and SIGUSR1, which mpirun passes on to processes that only start, end the
// program with status 130; a pipe that nobody reads gives an error from write instead of a signal.
void install_signal_defaults();

// The same for SIGTERM and SIGHUP: for commands that are asked to end by these, and have nothing to save yet.
void install_ending_signals();

// From now on the first Ctrl-C, SIGTERM or SIGHUP (a terminal that was closed) makes `interrupted` true and
// says what is done about it, such as "finishing the step and saving"; the second Ctrl-C or SIGTERM ends the
// program. SIGHUP stays ignored where it was when the program began (nohup). what: a string literal; null:
// not a word is said. The same with SIGUSR1, which mpirun passes on to all its processes, however often.
// distributed: SIGTERM is of mpirun then, which ends all when one of them has died: nobody has pressed
// anything.
void install_graceful_interrupt(const char* what, bool distributed = false);
bool interrupted();

// How work ends that was interrupted. Caught in main: a line for the user, and status 130.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// While this lives the first Ctrl-C only makes `interrupted` true and calls a function, without a word; the
// second ends the program.
class QuietInterrupt {
 public:
  explicit QuietInterrupt(void (*then)());  // async-signal-safe
  ~QuietInterrupt();                        // as install_signal_defaults, and nothing has been interrupted
  QuietInterrupt(const QuietInterrupt&) = delete;
  QuietInterrupt& operator=(const QuietInterrupt&) = delete;
};

// A mapped file that another program makes shorter, or that its disk can no longer read, gives SIGBUS where
// it is touched. Ends the program with status 1 and a line that names the file, instead of a signal.
void install_lost_page_handler();

}  // namespace gpt
