#include "io/zip.h"

#include <algorithm>
#include <optional>

#include "base/printable.h"
#include "io/byte_reader.h"

namespace gpt {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryHeader = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr size_t kEndBytes = 22, kLocatorBytes = 20;
constexpr size_t kMaxComment = 65535;
constexpr uint64_t kMaxEntries = uint64_t{1} << 18;
constexpr uint64_t kDirectoryEntryBytes = 46;
constexpr uint16_t kZip64Field = 1;

// Returns the offset of the end-of-central-directory record.
std::optional<size_t> find_end(std::span<const std::byte> bytes) {
  if (bytes.size() < kEndBytes) return std::nullopt;
  const size_t last = bytes.size() - kEndBytes;
  const size_t first = last - std::min(last, kMaxComment);
  for (size_t at = last + 1; at-- > first;) {
    uint32_t magic = 0;
    std::memcpy(&magic, bytes.data() + at, sizeof magic);
    if (magic == kEnd) return at;
  }
  return std::nullopt;
}

// Reads the zip64 extra field. If a 32-bit field of the entry is 0xffffffff, the extra field contains its
// 64-bit value. The 64-bit values are in the order of `values`.
void read_zip64(std::span<const std::byte> extra, std::initializer_list<uint64_t*> values,
                const std::string& what) {
  ByteReader fields(extra, what);
  while (fields.left() >= 4) {
    const auto kind = fields.number<uint16_t>();
    const auto size = fields.number<uint16_t>();
    if (size > fields.left()) return;  // PyTorch adds padding fields, which may be truncated
    const auto content = fields.take(size);
    if (kind != kZip64Field) continue;
    ByteReader wide(content, what);
    for (uint64_t* value : values) {
      if (*value == UINT32_MAX) *value = wide.number<uint64_t>();
    }
  }
}

}  // namespace

ZipFile::ZipFile(std::span<const std::byte> bytes, const std::string& what) : bytes_(bytes), what_(what) {
  const auto end = find_end(bytes);
  if (!end) fail("{} is damaged or incomplete: it has no end record of a zip archive", what_);
  ByteReader record(bytes.subspan(*end), what_);
  record.take(10);
  uint64_t count = record.number<uint16_t>();
  uint64_t size = record.number<uint32_t>();
  uint64_t begin = record.number<uint32_t>();
  const bool wide = count == UINT16_MAX || size == UINT32_MAX || begin == UINT32_MAX;
  if (wide && *end >= kLocatorBytes) {
    ByteReader locator(bytes.subspan(*end - kLocatorBytes), what_);
    if (locator.number<uint32_t>() == kEnd64Locator) {
      locator.number<uint32_t>();
      const auto at = locator.number<uint64_t>();
      if (at > *end) fail("{} is damaged: its zip64 record is outside of the file", what_);
      ByteReader record64(bytes.subspan(static_cast<size_t>(at)), what_);
      if (record64.number<uint32_t>() != kEnd64) fail("{} is damaged: it has no zip64 record", what_);
      record64.take(28);
      count = record64.number<uint64_t>();
      size = record64.number<uint64_t>();
      begin = record64.number<uint64_t>();
    }
  }
  read_directory(begin, size, count);
}

void ZipFile::read_directory(uint64_t begin, uint64_t size, uint64_t count) {
  if (begin > bytes_.size() || size > bytes_.size() - begin || count > kMaxEntries ||
      count > size / kDirectoryEntryBytes) {
    fail("{} is damaged: a zip directory of {} entries in {} bytes at byte {} does not fit", what_, count,
         size, begin);
  }
  ByteReader directory(bytes_.subspan(static_cast<size_t>(begin), static_cast<size_t>(size)), what_);
  for (uint64_t i = 0; i < count; ++i) {
    if (directory.number<uint32_t>() != kDirectoryHeader)
      fail("{} is damaged: it has no zip directory at byte {}", what_, begin);
    directory.take(4);
    Entry entry;
    entry.flags = directory.number<uint16_t>();
    entry.method = directory.number<uint16_t>();
    directory.take(8);
    uint64_t packed = directory.number<uint32_t>();
    entry.size = directory.number<uint32_t>();
    const auto name_bytes = directory.number<uint16_t>();
    const auto extra_bytes = directory.number<uint16_t>();
    const auto comment_bytes = directory.number<uint16_t>();
    directory.take(8);
    entry.offset = directory.number<uint32_t>();
    const std::string name(directory.text(name_bytes));
    read_zip64(directory.take(extra_bytes), {&entry.size, &packed, &entry.offset}, what_);
    directory.take(comment_bytes);
    if (i == 0) prefix_ = name.substr(0, name.find('/'));
    if (!entries_.emplace(name, entry).second) fail("{}: the entry {} occurs twice", what_, printable(name));
  }
}

std::span<const std::byte> ZipFile::read(std::string_view name) const {
  const auto at = entries_.find(name);
  if (at == entries_.end()) fail("{} is damaged: it has no entry {}", what_, printable(name));
  const Entry& entry = at->second;
  if (entry.method != 0 || (entry.flags & 1) != 0) {
    fail(
        "{}: the entry {} is compressed or encrypted: expected method 0 and no flags, found method {} and "
        "flags {}; save it again with torch.save",
        what_, printable(name), entry.method, entry.flags);
  }
  if (entry.offset > bytes_.size())
    fail("{} is damaged: the entry {} begins at byte {}, but the file has {} bytes", what_, printable(name),
         entry.offset, bytes_.size());
  ByteReader local(bytes_.subspan(static_cast<size_t>(entry.offset)), what_);
  if (local.number<uint32_t>() != kLocalHeader)
    fail("{} is damaged: the entry {} has no header at byte {}", what_, printable(name), entry.offset);
  local.take(22);
  const auto name_bytes = local.number<uint16_t>();
  const auto extra_bytes = local.number<uint16_t>();
  local.take(uint64_t{name_bytes} + extra_bytes);
  return local.take(entry.size);
}

}  // namespace gpt
