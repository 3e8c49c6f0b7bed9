#include "data/byte_stream.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace gpt {
namespace {

constexpr size_t kInputBytes = size_t{256} << 10;
constexpr int kMaxWindowBits = 27;  // zstd window limit: 2^27 bytes = 128 MiB
constexpr std::string_view kGzipMagic = "\x1f\x8b", kZstdMagic = "\x28\xb5\x2f\xfd";

class FileStream final : public ByteStream {
 public:
  explicit FileStream(const std::string& path)
      : path_(path), fd_(open_regular_file(path)), stamp_(file_stamp(fd_)) {}
  ~FileStream() override { close(fd_); }

  size_t read(std::span<char> out) override {
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t n = ::read(fd_, out.data() + done, out.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("cannot read {}: {}", path_, std::strerror(errno));
      if (n == 0) break;
      done += static_cast<size_t>(n);
    }
    consumed_ += done;
    if (done < out.size()) require_unchanged();
    return done;
  }
  uint64_t consumed() const override { return consumed_; }

 private:
  void require_unchanged() const {
    const FileStamp now = file_stamp(fd_);
    if (now == stamp_) return;
    fail(
        "{}: the file changed while it was being read: it had {} bytes and now has {}; try again when no "
        "program writes to it",
        path_, stamp_.bytes, now.bytes);
  }

  std::string path_;
  int fd_;
  FileStamp stamp_;
  uint64_t consumed_ = 0;
};

class MemoryStream final : public ByteStream {
 public:
  explicit MemoryStream(std::span<const std::byte> bytes) : size_(bytes.size()), bytes_(bytes) {}
  size_t read(std::span<char> out) override {
    const size_t n = std::min(out.size(), bytes_.size());
    if (n > 0) std::memcpy(out.data(), bytes_.data(), n);
    bytes_ = bytes_.subspan(n);
    return n;
  }
  uint64_t consumed() const override { return size_ - bytes_.size(); }

 private:
  uint64_t size_;
  std::span<const std::byte> bytes_;
};

// Base class of the gzip and zstd streams. It buffers the compressed input and enforces the expansion limit.
class Decompressor : public ByteStream {
 public:
  Decompressor(std::unique_ptr<ByteStream> source, std::string name, const ByteStreamLimits& limits)
      : source_(std::move(source)), name_(std::move(name)), limits_(limits), buffer_(kInputBytes) {}

  size_t read(std::span<char> out) final {
    size_t done = 0;
    while (done < out.size()) {
      const size_t n = decompress(out.subspan(done));
      if (n == 0) break;
      done += n;
      check_ratio(n);
    }
    return done;
  }
  uint64_t consumed() const final { return read_; }
  bool compressed() const final { return true; }

 protected:
  // Decompresses into `out` and returns the number of bytes, at least one. Returns 0 at the end of the file.
  virtual size_t decompress(std::span<char> out) = 0;

  bool refill() {  // returns false at the end of the file
    input_ = std::span(buffer_.data(), source_->read(buffer_));
    read_ += input_.size();
    return !input_.empty();
  }
  [[noreturn]] void fail_damaged(const std::string& what) const {
    fail(
        "cannot decompress {}: {} near byte {} of the file; the file is damaged or was not copied completely",
        name_, what, read_ - input_.size());
  }

  std::span<char> input_;

 private:
  void check_ratio(size_t n) {
    written_ += n;
    if (written_ <= limits_.free_bytes || written_ / limits_.max_ratio <= read_) return;
    fail(
        "cannot decompress {}: {} compressed bytes gave more than {} bytes, over {} times the size, as in a "
        "decompression bomb; if you trust the file, decompress it first",
        name_, read_, written_, limits_.max_ratio);
  }

  std::unique_ptr<ByteStream> source_;
  std::string name_;
  ByteStreamLimits limits_;
  std::vector<char> buffer_;
  uint64_t read_ = 0, written_ = 0;
};

class GzipStream final : public Decompressor {
 public:
  template <class... A>
  explicit GzipStream(A&&... a) : Decompressor(std::forward<A>(a)...) {
    constexpr int kGzipOnly = 16;  // added to windowBits to accept only gzip; see inflateInit2 in zlib.h
    if (inflateInit2(&state_, MAX_WBITS + kGzipOnly) != Z_OK) fail_memory("out of memory for decompression");
  }
  ~GzipStream() override { inflateEnd(&state_); }

 private:
  size_t decompress(std::span<char> out) override {
    const auto room = static_cast<uInt>(std::min(out.size(), kInputBytes));
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = room;
    while (state_.avail_out == room) {
      if (input_.empty() && !refill()) {
        if (inside_) fail_damaged("unexpected end of the compressed data");
        return 0;
      }
      if (!inside_ && zeros_to_the_end()) continue;
      step();
    }
    return room - state_.avail_out;
  }

  // Skips zeros after the last gzip member, because tapes and some tools pad files with zeros. Fails if other
  // bytes follow the last member.
  bool zeros_to_the_end() {
    if (members_ == 0 || input_[0] != 0) return false;
    const auto other = std::ranges::find_if(input_, [](char c) { return c != 0; });
    if (other != input_.end()) fail_damaged("unexpected bytes after the compressed data");
    input_ = {};
    return true;
  }

  void step() {
    inside_ = true;
    state_.next_in = reinterpret_cast<Bytef*>(input_.data());
    state_.avail_in = static_cast<uInt>(input_.size());
    const int result = inflate(&state_, Z_NO_FLUSH);
    input_ = input_.last(state_.avail_in);
    if (result == Z_STREAM_END) {
      inside_ = false;
      ++members_;
      inflateReset(&state_);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      fail_damaged(state_.msg != nullptr ? state_.msg : "not gzip data");
    }
  }

  z_stream state_{};
  bool inside_ = false;  // true while a gzip member is being decoded
  int64_t members_ = 0;
};

class ZstdStream final : public Decompressor {
 public:
  template <class... A>
  explicit ZstdStream(A&&... a) : Decompressor(std::forward<A>(a)...), state_(ZSTD_createDStream()) {
    if (state_ == nullptr) fail_memory("out of memory for decompression");
    ZSTD_DCtx_setParameter(state_, ZSTD_d_windowLogMax, kMaxWindowBits);
  }
  ~ZstdStream() override { ZSTD_freeDStream(state_); }

 private:
  size_t decompress(std::span<char> out) override {
    ZSTD_outBuffer room{out.data(), out.size(), 0};
    while (room.pos == 0) {
      // When the output buffer is full, the decoder may still hold decompressed bytes, which it returns
      // without more input.
      if (input_.empty() && !full_ && !refill()) {
        if (inside_) fail_damaged("unexpected end of the compressed data");
        return 0;
      }
      ZSTD_inBuffer in{input_.data(), input_.size(), 0};
      const size_t result = ZSTD_decompressStream(state_, &room, &in);
      input_ = input_.subspan(in.pos);
      if (ZSTD_isError(result) != 0) fail_damaged(ZSTD_getErrorName(result));
      inside_ = result != 0;
      full_ = room.pos == room.size && inside_;
    }
    return room.pos;
  }

  ZSTD_DStream* state_;
  // `inside_` is true while a zstd frame is being decoded. `full_` is true if the last call filled its output
  // buffer.
  bool inside_ = false, full_ = false;
};

std::unique_ptr<ByteStream> decompressed(std::string_view first, std::unique_ptr<ByteStream> source,
                                         const std::string& name, const ByteStreamLimits& limits) {
  if (first.starts_with(kGzipMagic)) return std::make_unique<GzipStream>(std::move(source), name, limits);
  if (first.starts_with(kZstdMagic)) return std::make_unique<ZstdStream>(std::move(source), name, limits);
  return source;
}

}  // namespace

std::unique_ptr<ByteStream> open_byte_stream(const std::string& path, const ByteStreamLimits& limits) {
  char first[4];
  const size_t n = FileStream(path).read(first);
  return decompressed({first, n}, std::make_unique<FileStream>(path), path, limits);
}

std::unique_ptr<ByteStream> byte_stream_of(std::span<const std::byte> bytes, const std::string& name,
                                           const ByteStreamLimits& limits) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return decompressed(text.substr(0, 4), std::make_unique<MemoryStream>(bytes), name, limits);
}

}  // namespace gpt
