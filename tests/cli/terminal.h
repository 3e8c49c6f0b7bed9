#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

// The built program on a terminal of its own: standard input, output and error are one pseudo-terminal.
// Throws, and so fails the test at once, where none can be had.
class Terminal {
 public:
  Terminal(const std::vector<std::string>& arguments, const std::vector<std::string>& environment);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Types text, as a keyboard would: "\x03" is Ctrl-C, "\x04" Ctrl-D, "\n" the return key.
  void type(const std::string& text) const;
  // Reads until `text` has come after what earlier calls waited for; returns what was read, `text` included.
  // Fails the test when the program ends first, or says nothing for a minute.
  std::string wait_for(const std::string& text);
  // Reads until anything has come after that.
  void wait_for_output();
  // Reads to the end: the exit status, or minus the signal that ended the program.
  int end();

 private:
  bool read_some();

  int terminal_ = -1;
  pid_t child_ = -1;
  std::string unread_;
};
