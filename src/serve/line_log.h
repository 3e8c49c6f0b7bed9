#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "serve/work_thread.h"

namespace gpt::serve {

// Lines that go to a file, or to standard error, without keeping whoever writes them waiting: a reader who
// does not keep up loses lines, and so does a disk that is full.
class LineLog {
 public:
  // path: appended to; "": standard error. note: told, on a thread of the log's own, when lines begin to be
  // lost since the file takes none. Throws Error where the file cannot be opened.
  explicit LineLog(const std::string& path, std::function<void(const std::string& text)> note = {});
  ~LineLog();  // without waiting for a reader who does not read
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  void write(const std::string& line);  // any thread

 private:
  struct Close {
    void operator()(std::FILE* file) const;
  };
  void put(std::string_view text);
  bool wait_until_ready(int fd);
  void lose(const char* why);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::function<void(const std::string& text)> note_;
  std::atomic<bool> ending_ = false;
  bool given_up_ = false, torn_ = false, losing_ = false;  // of the log's thread
  WorkThread writing_;
};

}  // namespace gpt::serve
