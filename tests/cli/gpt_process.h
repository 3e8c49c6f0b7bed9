#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

// Runs the built program concurrently with the test. The standard error of the program is redirected to a
// file.
class GptProcess {
 public:
  // `prepare` is called in the new process before the program starts.
  explicit GptProcess(const std::vector<std::string>& arguments, const std::function<void()>& prepare = {});
  ~GptProcess();  // kills the process
  GptProcess(const GptProcess&) = delete;
  GptProcess& operator=(const GptProcess&) = delete;

  pid_t pid() const { return child_; }
  // Waits until a condition holds. Returns false if the program has ended without it, or after kPatience.
  bool wait_until(const std::function<bool()>& ready);
  // Waits until a file exists.
  bool wait_for_file(const std::string& path);
  // Waits until standard error contains a text.
  bool wait_for_note(const std::string& text);
  void send(int signal) const;
  // Waits for the program to end. Returns its exit status, or the negative number of the signal that ended
  // it.
  int end();
  std::string notes() const;  // standard error of the program so far

 private:
  bool has_ended();

  std::string notes_path_;
  pid_t child_ = -1;
  bool ended_ = false;
  int status_ = 0;
};
