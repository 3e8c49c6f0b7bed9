#pragma once

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "serve/work_thread.h"

namespace gpt::serve {

// Writes lines to a file or to standard error without blocking the caller. Lines are lost if a reader is too
// slow or the disk is full.
class LineLog {
 public:
  // `path` is the file to append to; "" means standard error. `note` is called on the log's thread when lines
  // start to get lost because the file cannot be written. Throws Error if the file cannot be opened.
  explicit LineLog(const std::string& path, std::function<void(const std::string& text)> note = {});
  ~LineLog();  // does not wait for a reader that has stopped reading
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  void write(const std::string& line);  // thread-safe

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
  bool given_up_ = false, torn_ = false, losing_ = false;  // used only on the log's thread
  WorkThread writing_;
};

}  // namespace gpt::serve
