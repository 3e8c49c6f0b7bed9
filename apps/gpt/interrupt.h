#pragma once

namespace gpt {

// Without further ado Ctrl-C ends the program with status 130; a pipe that nobody reads gives an error
// from write instead of a signal.
void install_signal_defaults();

// From now on the first Ctrl-C (or SIGTERM) only makes `interrupted` true; the second ends the program.
void install_graceful_interrupt();
bool interrupted();

// While this lives the first Ctrl-C only makes `interrupted` true, without a word; the second ends the
// program.
class QuietInterrupt {
 public:
  QuietInterrupt();
  ~QuietInterrupt();  // as install_signal_defaults, and nothing has been interrupted
  QuietInterrupt(const QuietInterrupt&) = delete;
  QuietInterrupt& operator=(const QuietInterrupt&) = delete;
};

inline constexpr int kInterruptedStatus = 130;

}  // namespace gpt
