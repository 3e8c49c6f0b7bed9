#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace gpt {

// An existing file to which several processes write different parts. All errors throw Error naming the path.
class SharedFile {
 public:
  explicit SharedFile(const std::string& path);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // Makes the file at least `size` bytes long and reserves disk space if the file system supports it.
  void extend(uint64_t size);
  void write(uint64_t offset, std::span<const std::byte> bytes);
  void sync();

 private:
  std::string path_;
  int fd_;
};

}  // namespace gpt
