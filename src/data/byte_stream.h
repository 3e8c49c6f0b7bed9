#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace gpt {

// The bytes of a file one after the other, decompressed where it is compressed.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills as much of `out` as it can; less than all only at the end, 0 behind it. Throws Error when the file
  // cannot be read, is damaged, or was changed since it was opened.
  virtual size_t read(std::span<char> out) = 0;
  virtual uint64_t consumed() const = 0;  // bytes of the file that were read so far
  virtual bool compressed() const { return false; }
};

struct ByteStreamLimits {
  // A compressed file may become this many times larger, once it gives more than `free_bytes`: deflate cannot
  // do more than 1032, text hardly ever 20.
  uint64_t max_ratio = 1000;
  uint64_t free_bytes = uint64_t{64} << 20;
};

// Opens a file. What is compressed is known by its first bytes: gzip (of any number of members) or zstd (of
// any number of frames, with windows of up to 128 MiB). Memory does not depend on the size. Throws Error.
std::unique_ptr<ByteStream> open_byte_stream(const std::string& path, const ByteStreamLimits& limits = {});

// The same for bytes in memory, which must outlive the stream; `name` stands for them in messages.
std::unique_ptr<ByteStream> byte_stream_of(std::span<const std::byte> bytes, const std::string& name,
                                           const ByteStreamLimits& limits = {});

}  // namespace gpt
