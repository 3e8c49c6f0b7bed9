#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace gpt {

// The entries of a zip archive that are stored as they are, which is all that PyTorch writes. Opening reads
// the central directory alone (zip64 included) and checks it: sizes, offsets, duplicate names. Throws Error
// naming `what`. `bytes` must outlive the object. Source: PKWARE's APPNOTE, 4.3.
class ZipFile {
 public:
  ZipFile(std::span<const std::byte> bytes, const std::string& what);

  // The first path component that all names of the archive begin with, as PyTorch has it: "archive".
  const std::string& prefix() const { return prefix_; }
  bool contains(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  // The bytes of an entry. Throws Error when there is none, when it is compressed or encrypted, or lies
  // outside of the file.
  std::span<const std::byte> read(std::string_view name) const;

 private:
  struct Entry {
    uint64_t offset = 0;  // of its local header
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
