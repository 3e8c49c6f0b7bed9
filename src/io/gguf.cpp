#include "io/gguf.h"

#include <cstring>
#include <utility>

#include "io/printable.h"
#include "io/sorted_index.h"

namespace gpt {
namespace {

constexpr std::string_view kExpected =
    "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K; quantise the model to one of these";

bool is_integer(GgufType t) {
  return t <= GgufType::i32 || t == GgufType::u64 || t == GgufType::i64;
}
bool is_number(GgufType t) {
  return is_integer(t) || t == GgufType::f32 || t == GgufType::f64;
}
bool is_boolean(GgufType t) {
  return t == GgufType::boolean;
}
bool is_string(GgufType t) {
  return t == GgufType::string;
}

template <class T>
T load(const std::byte*& p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  p += sizeof value;
  return value;
}

// Calls f with the next number and moves on.
template <class F>
auto with_number(GgufType type, const std::byte*& p, F&& f) {
  switch (type) {
    case GgufType::i8:
      return f(load<int8_t>(p));
    case GgufType::u16:
      return f(load<uint16_t>(p));
    case GgufType::i16:
      return f(load<int16_t>(p));
    case GgufType::u32:
      return f(load<uint32_t>(p));
    case GgufType::i32:
      return f(load<int32_t>(p));
    case GgufType::u64:
      return f(load<uint64_t>(p));
    case GgufType::i64:
      return f(load<int64_t>(p));
    case GgufType::f32:
      return f(load<float>(p));
    case GgufType::f64:
      return f(load<double>(p));
    default:
      return f(load<uint8_t>(p));
  }
}

std::string_view load_string(const std::byte*& p) {
  const auto length = load<uint64_t>(p);
  const std::string_view text(reinterpret_cast<const char*>(p), length);
  p += length;
  return text;
}

std::string_view key_of(const GgufEntry& e) {
  return e.key;
}

int64_t as_int64(uint64_t value, const std::string& path, std::string_view key) {
  if (value > uint64_t{INT64_MAX}) fail("{}: {} is too large: {}", path, printable(key), value);
  return static_cast<int64_t>(value);
}

int64_t load_integer(GgufType type, const std::byte*& p, const std::string& path, std::string_view key) {
  if (type == GgufType::u64) return as_int64(load<uint64_t>(p), path, key);
  return with_number(type, p, [](auto x) { return static_cast<int64_t>(x); });
}

}  // namespace

GgufFile::GgufFile(const std::string& path) : TensorFile(path, kExpected), file_(path) {
  parse(file_.bytes());
}

GgufFile::GgufFile(std::span<const std::byte> bytes, const std::string& what) : TensorFile(what, kExpected) {
  parse(bytes);
}

void GgufFile::parse(std::span<const std::byte> bytes) {
  GgufHeader header = parse_gguf_header(bytes, path());
  version_ = header.version;
  metadata_ = std::move(header.metadata);
  by_key_ = sorted_index(metadata_, key_of);
  if (const GgufEntry* e = find_duplicate(metadata_, by_key_, key_of))
    fail("{}: the key {} occurs twice", path(), printable(e->key));
  std::vector<TensorInfo> tensors;
  std::vector<UnsupportedTensor> unsupported;
  for (GgufTensorEntry& t : header.tensors) {
    if (t.type->dtype) {
      tensors.push_back({std::move(t.name), *t.type->dtype, std::move(t.shape),
                         bytes.subspan(header.data_begin + t.begin, t.size)});
    } else {
      unsupported.push_back({std::move(t.name), std::string(t.type->name), std::move(t.shape)});
    }
  }
  set_tensors(std::move(tensors), std::move(unsupported));
}

const GgufEntry* GgufFile::entry(std::string_view key) const {
  return find_sorted(metadata_, by_key_, key, key_of);
}

// The entry of a key; nullptr when there is none.
const GgufEntry* GgufFile::typed(std::string_view key, bool array, bool (*fits)(GgufType),
                                 const char* kind) const {
  const GgufEntry* e = entry(key);
  if (e != nullptr && (e->is_array != array || !fits(e->type))) {
    fail("{}: expected {} to be {}, found {}type {}", path(), printable(key), kind,
         e->is_array ? "an array of " : "", static_cast<uint32_t>(e->type));
  }
  return e;
}

std::optional<std::string_view> GgufFile::string(std::string_view key) const {
  const GgufEntry* e = typed(key, false, is_string, "a string");
  if (e == nullptr) return {};
  const std::byte* p = e->bytes.data();
  return load_string(p);
}

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  const GgufEntry* e = typed(key, false, is_integer, "an integer");
  if (e == nullptr) return {};
  const std::byte* p = e->bytes.data();
  return load_integer(e->type, p, path(), key);
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufEntry* e = typed(key, false, is_number, "a number");
  if (e == nullptr) return {};
  const std::byte* p = e->bytes.data();
  return with_number(e->type, p, [](auto x) { return static_cast<double>(x); });
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufEntry* e = typed(key, false, is_boolean, "a boolean");
  if (e == nullptr) return {};
  return e->bytes[0] != std::byte{0};
}

std::optional<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  const GgufEntry* e = typed(key, true, is_string, "an array of strings");
  if (e == nullptr) return {};
  std::vector<std::string_view> all(e->count);
  const std::byte* p = e->bytes.data();
  for (std::string_view& s : all)
    s = load_string(p);
  return all;
}

std::optional<std::vector<int64_t>> GgufFile::integers(std::string_view key) const {
  const GgufEntry* e = typed(key, true, is_integer, "an array of integers");
  if (e == nullptr) return {};
  std::vector<int64_t> all(e->count);
  const std::byte* p = e->bytes.data();
  for (int64_t& x : all)
    x = load_integer(e->type, p, path(), key);
  return all;
}

std::optional<std::vector<float>> GgufFile::numbers(std::string_view key) const {
  const GgufEntry* e = typed(key, true, is_number, "an array of numbers");
  if (e == nullptr) return {};
  std::vector<float> all(e->count);
  const std::byte* p = e->bytes.data();
  for (float& x : all)
    x = with_number(e->type, p, [](auto value) { return static_cast<float>(value); });
  return all;
}

template <class T>
T GgufFile::needed(std::optional<T> value, std::string_view key) const {
  if (!value) fail("{}: expected the metadata to have {}, found no such key", path(), printable(key));
  return *value;
}

std::string_view GgufFile::need_string(std::string_view key) const {
  return needed(string(key), key);
}
int64_t GgufFile::need_integer(std::string_view key) const {
  return needed(integer(key), key);
}
double GgufFile::need_number(std::string_view key) const {
  return needed(number(key), key);
}

}  // namespace gpt
