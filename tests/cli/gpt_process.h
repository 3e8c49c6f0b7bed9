#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

// The built program, running beside the test. What it writes to standard error goes to a file.
class GptProcess {
 public:
  // `prepare` is called in the new process before the program starts.
  explicit GptProcess(const std::vector<std::string>& arguments, const std::function<void()>& prepare = {});
  ~GptProcess();  // kills it
  GptProcess(const GptProcess&) = delete;
  GptProcess& operator=(const GptProcess&) = delete;

  pid_t pid() const { return child_; }
  // Waits until a condition holds. Returns false if the program has ended without it, or after kPatience.
  bool wait_until(const std::function<bool()>& ready);
  // Waits until a file is there.
  bool wait_for_file(const std::string& path);
  // Waits for text on standard error.
  bool wait_for_note(const std::string& text);
  void send(int signal) const;
  // Waits for the end: the exit status, or minus the signal that ended the program.
  int end();
  std::string notes() const;  // what it wrote to standard error so far

 private:
  bool has_ended();

  std::string notes_path_;
  pid_t child_ = -1;
  bool ended_ = false;
  int status_ = 0;
};
