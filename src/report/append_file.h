#pragma once

#include <string>
#include <string_view>

namespace gpt {

// A log file to which whole records are added. Every error throws Error naming the path.
class AppendFile {
 public:
  enum class Mode { keep, empty, must_be_new };

  AppendFile(const std::string& path, Mode mode);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Adds the bytes with one write, so that a kill tears at most the last record. When the disk is full, takes
  // back what was written of the record and throws: a later one is then never glued to a torn one.
  void append(std::string_view record);

  void sync();  // forces everything to the disk
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace gpt
