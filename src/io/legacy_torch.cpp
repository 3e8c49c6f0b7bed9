#include "io/legacy_torch.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/printable.h"
#include "io/byte_reader.h"

namespace gpt {
namespace {

using Kind = PickleValue::Kind;

constexpr int64_t kVersion = 1001;

bool starts_with(std::span<const std::byte> bytes, std::span<const uint8_t> prefix) {
  return bytes.size() >= prefix.size() && std::memcmp(bytes.data(), prefix.data(), prefix.size()) == 0;
}

// Returns the size of the first pickle if it is the magic number, or 0 otherwise. This pickle consists of the
// protocol, a frame (from protocol 4 on) and the magic number.
size_t magic_bytes(std::span<const std::byte> bytes) {
  constexpr std::array<uint8_t, 13> kMagic = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                              0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};
  constexpr uint8_t kProto = 0x80, kFrame = 0x95;
  constexpr size_t kProtoBytes = 2, kFrameBytes = 9;
  if (bytes.size() < kProtoBytes || bytes[0] != std::byte{kProto}) return 0;
  size_t at = kProtoBytes;
  if (bytes.size() > at + kFrameBytes && bytes[at] == std::byte{kFrame}) at += kFrameBytes;
  return starts_with(bytes.subspan(at), kMagic) ? at + kMagic.size() : 0;
}

}  // namespace

bool is_legacy_torch(std::span<const std::byte> bytes) {
  return magic_bytes(bytes) > 0;
}

LegacyTorch::LegacyTorch(std::span<const std::byte> bytes, const std::string& what,
                         std::span<const std::string_view> globals,
                         const std::function<size_t(std::string_view)>& element_size)
    : bytes_(bytes), what_(what), at_(magic_bytes(bytes)) {
  const Pickle version = next({});
  if (version.root().kind != Kind::integer || version.root().number != kVersion)
    fail(
        "{}: expected version {} of the torch.save format used before PyTorch 1.6, found a different version",
        what, kVersion);
  check_machine();
  pickle_ = next(globals);
  read_storages(element_size);
}

Pickle LegacyTorch::next(std::span<const std::string_view> globals) {
  const auto rest = bytes_.subspan(at_);  // also contains the storage data, which may be large
  Pickle pickle(rest.first(std::min(rest.size(), Pickle::kMaxBytes)), what_, globals);
  at_ += pickle.bytes();
  return pickle;
}

void LegacyTorch::check_machine() {
  const Pickle machine = next({});
  const PickleValue* little = machine.root().find("little_endian");
  if (little == nullptr || little->kind != Kind::boolean || little->number == 0)
    fail("{}: expected little-endian numbers, found big-endian ones", what_);
}

void LegacyTorch::read_storages(const std::function<size_t(std::string_view)>& element_size) {
  std::map<std::string_view, size_t> sizes;  // element sizes by storage key
  for (const PickleValue* value : pickle_.of_kind(Kind::persistent)) {
    const auto& parts = value->items[0]->items;  // ("storage", type, key, ...)
    if (parts.size() > 2 && parts[1]->kind == Kind::global && parts[2]->kind == Kind::text)
      sizes[parts[2]->text] = element_size(parts[1]->text);
  }
  const Pickle keys = next({});
  if (keys.root().kind != Kind::list) fail("{}: expected a list of storages, found none", what_);
  ByteReader in(bytes_.subspan(at_), what_);
  for (const PickleValue* key : keys.root().items) {
    const auto size = key->kind == Kind::text ? sizes.find(key->text) : sizes.end();
    if (size == sizes.end() || size->second == 0) fail("{}: a storage has an unknown type", what_);
    const auto elements = in.number<uint64_t>("the size of a storage");
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(elements, uint64_t{size->second}, &bytes))
      fail("{}: a storage has the impossible size of {} elements", what_, elements);
    storages_[std::string(key->text)] = in.take(bytes, "a storage");
  }
}

std::span<const std::byte> LegacyTorch::storage(std::string_view key) const {
  const auto found = storages_.find(key);
  if (found == storages_.end()) fail("{}: the storage {} is missing", what_, printable(key));
  return found->second;
}

}  // namespace gpt
