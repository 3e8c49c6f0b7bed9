#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace gpt {

// Reads a file sequentially. Decompresses the file if it is compressed.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `out` with the next bytes and returns the number of bytes read. The return value is smaller than
  // out.size() only at the end of the file, and 0 after the end. Throws Error when the file cannot be read,
  // is damaged, or was changed since it was opened.
  virtual size_t read(std::span<char> out) = 0;
  virtual uint64_t consumed() const = 0;  // number of bytes read from the file so far, before decompression
  virtual bool compressed() const { return false; }
};

struct ByteStreamLimits {
  // Maximum expansion ratio of a compressed file. The ratio is checked once the output exceeds `free_bytes`.
  // The ratio of deflate cannot exceed 1032. The ratio of text rarely exceeds 20.
  uint64_t max_ratio = 1000;
  uint64_t free_bytes = uint64_t{64} << 20;
};

// Opens a file and detects compression by the first bytes: gzip (any number of members) or zstd (any number
// of frames, with windows of up to 128 MiB). Memory use does not depend on the file size. Throws Error.
std::unique_ptr<ByteStream> open_byte_stream(const std::string& path, const ByteStreamLimits& limits = {});

// Opens a stream over bytes in memory and detects compression by the first bytes. The bytes must outlive the
// stream. Messages show `name` as the file name.
std::unique_ptr<ByteStream> byte_stream_of(std::span<const std::byte> bytes, const std::string& name,
                                           const ByteStreamLimits& limits = {});

}  // namespace gpt
