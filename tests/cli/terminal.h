#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

// Runs the built program on a pseudo-terminal, which is its standard input, output and error. Throws if no
// pseudo-terminal is available.
class Terminal {
 public:
  Terminal(const std::vector<std::string>& arguments, const std::vector<std::string>& environment);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Types text like a keyboard: "\x03" is Ctrl-C, "\x04" is Ctrl-D, and "\n" is the return key.
  void type(const std::string& text) const;
  // Reads until `text` appears after the output that earlier calls have read. Returns the output up to the
  // end of `text`. Fails the test if the program ends first or prints nothing for a minute.
  std::string wait_for(const std::string& text);
  // Reads until any further output appears.
  void wait_for_output();
  // Reads to the end of the output. Returns the exit status, or the negative number of the signal that ended
  // the program.
  int end();

 private:
  bool read_some();

  int terminal_ = -1;
  pid_t child_ = -1;
  std::string unread_;
};
