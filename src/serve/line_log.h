#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "serve/work_thread.h"

namespace gpt::serve {

// Lines that go to a file, or to standard error, without keeping whoever writes them waiting: a reader who
// does not keep up loses lines.
class LineLog {
 public:
  // path: appended to; "": standard error. Throws Error where the file cannot be opened.
  explicit LineLog(const std::string& path);
  void write(const std::string& line);  // any thread

 private:
  struct Close {
    void operator()(std::FILE* file) const;
  };
  std::unique_ptr<std::FILE, Close> file_;
  WorkThread writing_;
};

}  // namespace gpt::serve
