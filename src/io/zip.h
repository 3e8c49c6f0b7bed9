#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace gpt {

// Reads uncompressed entries of a zip archive; PyTorch writes only such entries. The constructor reads and
// checks only the central directory (zip64 included): sizes, offsets and duplicate names. Throws Error that
// names `what`. `bytes` must outlive the object. Source: PKWARE's APPNOTE, 4.3.
class ZipFile {
 public:
  ZipFile(std::span<const std::byte> bytes, const std::string& what);

  // Returns the first path component of the first entry. PyTorch uses one prefix for all entries, for example
  // "archive".
  const std::string& prefix() const { return prefix_; }
  bool contains(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  // Returns the bytes of an entry. Throws Error if the entry is missing, compressed or encrypted, or extends
  // past the end of the file.
  std::span<const std::byte> read(std::string_view name) const;

 private:
  struct Entry {
    uint64_t offset = 0;  // byte offset of the local header
    uint64_t size = 0;
    uint16_t method = 0;
    uint16_t flags = 0;
  };
  void read_directory(uint64_t begin, uint64_t size, uint64_t count);

  std::span<const std::byte> bytes_;
  std::string what_;
  std::string prefix_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace gpt
