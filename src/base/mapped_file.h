#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/file.h"

namespace gpt {

// A file mapped read-only into memory. Move-only. Pages are read when touched. Throws Error when the
// file cannot be opened, is not a regular file, or cannot be mapped. An empty file gives an empty span.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Asks for large pages where the file system has them: for a file of which all is read many times. A hint.
  void prefer_large_pages() const;
  // Memory of a part that is not read for now goes back to the system; what is read later comes from the
  // file.
  void release(std::span<const std::byte> part) const;
  const std::string& path() const { return path_; }
  const FileStamp& stamp() const { return stamp_; }  // when it was opened

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileStamp stamp_;
};

}  // namespace gpt
