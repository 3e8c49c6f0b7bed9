#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"

namespace gpt {

class ThreadPool;

inline constexpr size_t kLargePage = size_t{2} << 20;  // of x86-64

// A file mapped read-only into memory. Move-only. Pages are read when touched. Throws Error when the
// file cannot be opened, is not a regular file, or cannot be mapped. An empty file gives an empty span.
class MappedFile {
 public:
  MappedFile();
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
  // Moves all of a part but the ends that fill no large page to memory of this process, which has large pages
  // where the system gives them out. It stays at the same addresses, and other threads may read it meanwhile.
  // False where the system refuses; then all is as before.
  bool move_to_large_pages(ThreadPool& pool, std::span<const std::byte> part) const;
  const std::string& path() const { return path_; }
  const FileStamp& stamp() const { return stamp_; }  // when it was opened

 private:
  struct Moved;

  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileStamp stamp_;
  std::unique_ptr<Moved> moved_;
};

// Of the mappings that have a byte of these; 0 where the system does not say (/proc).
int64_t bytes_in_large_pages(std::span<const std::span<const std::byte>> memory);

// Why the system gives no large pages to memory that asks for them; empty: it gives them.
std::string no_large_pages_because();

}  // namespace gpt
