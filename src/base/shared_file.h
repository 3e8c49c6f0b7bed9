#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpt {

// A file that is there, of which several processes write their parts. Every error throws Error naming the
// path.
class SharedFile {
 public:
  explicit SharedFile(const std::string& path);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  void extend(uint64_t size);  // makes it that long, with room on the disk where the file system can say so
  void write(uint64_t offset, std::span<const std::byte> bytes);
  void sync();

 private:
  std::string path_;
  int fd_;
};

}  // namespace gpt
