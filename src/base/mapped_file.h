#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/file.h"

namespace gpt {

class ThreadPool;

inline constexpr size_t kLargePage = size_t{2} << 20;  // size of a huge page on x86-64

// A read-only memory mapping of a file. Move-only. The system reads pages when they are first accessed. The
// constructor throws Error if the file cannot be opened or mapped, or is not a regular file. An empty file
// gives an empty span.
class MappedFile {
 public:
  MappedFile();
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Hints that huge pages should be used if the file system supports them. Useful for a file that is read in
  // full many times.
  void prefer_large_pages() const;
  // Frees the memory of a part. Later accesses read the part from the file again.
  void release(std::span<const std::byte> part) const;
  // Moves a part to anonymous memory of this process, which uses huge pages if the system provides them.
  // Bytes at either end of the part that do not fill a huge page stay mapped. The addresses do not change,
  // and other threads may read the part concurrently. Returns false and changes nothing if the system does
  // not allow the move.
  bool move_to_large_pages(ThreadPool& pool, std::span<const std::byte> part) const;
  const std::string& path() const { return path_; }
  const FileStamp& stamp() const { return stamp_; }  // file stamp at the time of opening

 private:
  struct Moved;

  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileStamp stamp_;
  std::unique_ptr<Moved> moved_;
};

// Returns the number of bytes in huge pages of all mappings that overlap `memory`, or 0 if /proc does not
// report it.
int64_t bytes_in_large_pages(std::span<const std::span<const std::byte>> memory);

// Returns the reason why the system does not provide huge pages to memory that requests them, or "" if the
// system provides them.
std::string no_large_pages_because();

}  // namespace gpt
