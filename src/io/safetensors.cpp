#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "base/printable.h"
#include "base/ranges.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr std::string_view kExpectedSafetensors =
    "F32, F16, BF16, F64, I64, I32 or U8; convert the file first";

// Splits a file into the JSON text of its header and its data section.
std::pair<std::string_view, std::span<const std::byte>> split(std::span<const std::byte> bytes,
                                                              const std::string& what) {
  if (bytes.size() < kLengthBytes) {
    fail("{} is not a safetensors file: expected at least {} bytes, found {}", what, kLengthBytes,
         bytes.size());
  }
  uint64_t length = 0;  // little-endian
  for (size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | std::to_integer<uint64_t>(bytes[i]);
  if (length > SafetensorsLimits::header_bytes) {
    fail("{} is not a safetensors file: expected a header of at most {} bytes, found {}", what,
         SafetensorsLimits::header_bytes, length);
  }
  if (length > bytes.size() - kLengthBytes) {
    fail("{} is damaged or incomplete: its header should have {} bytes, found {}", what, length,
         bytes.size() - kLengthBytes);
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  return {{text, length}, bytes.subspan(kLengthBytes + length)};
}

constexpr std::array<SafetensorsType, 22> kSafetensorsTypes = {{
    {"F32", 32, DType::f32},
    {"F64", 64, DType::f64},
    {"BF16", 16, DType::bf16},
    {"F16", 16, DType::f16},
    {"I64", 64, DType::i64},
    {"I32", 32, DType::i32},
    {"U8", 8, DType::u8},
    {"BOOL", 8, std::nullopt},
    {"I8", 8, std::nullopt},
    {"I16", 16, std::nullopt},
    {"U16", 16, std::nullopt},
    {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},
    {"C64", 64, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},
    {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, std::nullopt},
}};

constexpr size_t kMemberValues =
    2 *
    SafetensorsLimits::metadata_entries;  // maximum number of JSON values per member, unknown fields included
constexpr JsonLimits kJsonLimits{
    .max_bytes = SafetensorsLimits::header_bytes,
    .max_depth = 8,
    .max_elements = 24 * SafetensorsLimits::tensors,
    .max_string_bytes = uint64_t{8} << 20,
};

// Receives the members of a header one by one and keeps only the fields that a tensor list needs.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& what) : what_(what) {}

  SafetensorsHeader take() { return std::move(header_); }

  void member(const std::string& name, const json& value) {
    count_text(name);
    if (!value.is_object())
      fail("{}: expected an object for {}, found {}", what_, printable(name), json_kind(value));
    if (name == "__metadata__") return add_metadata(value);
    check_name(name);
    if (header_.entries.size() >= SafetensorsLimits::tensors)
      fail("{}: expected at most {} tensors, found more", what_, SafetensorsLimits::tensors);
    SafetensorsEntry entry{.name = name};
    entry.type = read_type(name, field(name, value, "dtype", "a string", &json::is_string));
    for (const json& size : field(name, value, "shape", "an array", &json::is_array))
      add_dimension(entry, size);
    const json& offsets = field(name, value, "data_offsets", "an array", &json::is_array);
    if (offsets.size() != 2) wrong_offsets(name, "an array of a different length");
    for (const json& offset : offsets) {
      if (!offset.is_number_unsigned()) wrong_offsets(name, json_kind(offset));
    }
    offsets[0].get_to(entry.begin);
    offsets[1].get_to(entry.end);
    header_.entries.push_back(std::move(entry));
  }

 private:
  const json& field(const std::string& tensor, const json& value, const char* key, const char* kind,
                    bool (json::*is_kind)() const noexcept) {
    const auto found = value.find(key);
    if (found == value.end()) fail("{}: tensor {} has no {}", what_, printable(tensor), key);
    if (!((*found).*is_kind)())
      fail("{}: tensor {}: expected {} for {}, found {}", what_, printable(tensor), kind, key,
           json_kind(*found));
    return *found;
  }

  const SafetensorsType* read_type(const std::string& tensor, const json& name) {
    const SafetensorsType* type = find_safetensors_type(name.get_ref<const std::string&>());
    if (type == nullptr)
      fail("{}: tensor {} has the unknown type {}; expected F32, F16, BF16, I64, ...", what_,
           printable(tensor), printable(name.get_ref<const std::string&>()));
    return type;
  }

  void add_dimension(SafetensorsEntry& entry, const json& size) {
    if (!size.is_number_unsigned())
      fail("{}: tensor {}: expected whole numbers in shape, found {}", what_, printable(entry.name),
           json_kind(size));
    if (entry.shape.size() >= SafetensorsLimits::rank)
      fail("{}: tensor {} has more than {} dimensions", what_, printable(entry.name),
           SafetensorsLimits::rank);
    if (size.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      fail("{}: tensor {} has the impossible dimension {}", what_, printable(entry.name),
           size.get<uint64_t>());
    entry.shape.push_back(size.get<int64_t>());
  }

  [[noreturn]] void wrong_offsets(const std::string& tensor, std::string_view found) {
    fail("{}: tensor {}: expected two whole numbers in data_offsets, found {}", what_, printable(tensor),
         found);
  }

  void add_metadata(const json& members) {
    if (std::exchange(has_metadata_, true)) fail("{}: duplicate key \"__metadata__\"", what_);
    if (members.size() > SafetensorsLimits::metadata_entries)
      fail("{}: expected at most {} metadata entries, found more", what_,
           SafetensorsLimits::metadata_entries);
    for (const auto& [key, value] : members.items()) {
      if (!value.is_string())
        fail("{}: expected a string for the metadata key {}, found {}", what_, printable(key),
             json_kind(value));
      count_text(key);
      count_text(value.get_ref<const std::string&>());
      header_.metadata[key] = value;
    }
  }

  void check_name(const std::string& name) {
    if (name.empty()) fail("{}: a tensor has an empty name", what_);
    if (name.size() > SafetensorsLimits::name_bytes)
      fail("{}: the tensor name {} is longer than {} bytes", what_, printable(name),
           SafetensorsLimits::name_bytes);
  }

  void count_text(const std::string& text) {
    text_bytes_ += text.size();
    if (text_bytes_ > SafetensorsLimits::text_bytes)
      fail("{}: names and metadata take more than {} bytes", what_, SafetensorsLimits::text_bytes);
  }

  const std::string& what_;
  SafetensorsHeader header_;
  bool has_metadata_ = false;
  size_t text_bytes_ = 0;
};

// Returns the number of bytes that the dtype and the shape require. Dimensions of size 0 are counted as 1 for
// the overflow check, because other code may multiply the remaining dimensions.
uint64_t expected_bytes(const SafetensorsEntry& e, const std::string& what) {
  const std::string name = fmt::format("{}: tensor {}", what, printable(e.name));
  Shape positive = e.shape;
  for (int64_t& d : positive)
    d = std::max<int64_t>(d, 1);
  const int64_t largest = checked_size(positive, name);
  int64_t bits = 0;
  if (__builtin_mul_overflow(largest, int64_t{e.type->bits}, &bits)) {
    fail("{}: the shape {} is too large", name, shape_string(e.shape));
  }
  bits = checked_size(e.shape, name) * e.type->bits;
  if (bits % 8 != 0)
    fail("{}: the shape {} does not fill whole bytes with the type {}", name, shape_string(e.shape),
         e.type->name);
  return static_cast<uint64_t>(bits) / 8;
}

void check_layout(const std::vector<SafetensorsEntry>& entries, uint64_t body_bytes,
                  const std::string& what) {
  uint64_t covered = 0;
  for (const SafetensorsEntry& e : entries) {
    if (e.end < e.begin || e.end > body_bytes) {
      fail(
          "{}: tensor {} has the byte range [{},{}), expected a range inside the {} bytes of data; the file "
          "is damaged or incomplete",
          what, printable(e.name), e.begin, e.end, body_bytes);
    }
    const uint64_t expected = expected_bytes(e, what);
    if (e.end - e.begin != expected) {
      fail("{}: tensor {} ({} {}) needs {} bytes, found {}", what, printable(e.name), e.type->name,
           shape_string(e.shape), expected, e.end - e.begin);
    }
    if (e.begin != covered) {
      fail("{}: tensor {} starts at byte {}, expected {}: tensors must not overlap or leave gaps", what,
           printable(e.name), e.begin, covered);
    }
    covered = e.end;
  }
  if (covered != body_bytes) {
    fail(
        "{}: the tensors cover {} bytes, found {} bytes of data; the file is damaged or has extra data at "
        "its end",
        what, covered, body_bytes);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : TensorFile(path, kExpectedSafetensors), file_(path) {
  parse(file_.bytes());
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, const std::string& what)
    : TensorFile(what, kExpectedSafetensors) {
  parse(bytes);
}

void SafetensorsFile::parse(std::span<const std::byte> bytes) {
  const auto [text, body] = split(bytes, path());
  SafetensorsHeader header = parse_safetensors_header(text, body.size(), path());
  metadata_ = std::move(header.metadata);
  std::vector<TensorInfo> tensors;
  std::vector<UnsupportedTensor> unsupported;
  tensors.reserve(header.entries.size());
  for (SafetensorsEntry& e : header.entries) {
    if (e.type->dtype) {
      tensors.push_back(
          {std::move(e.name), *e.type->dtype, std::move(e.shape), body.subspan(e.begin, e.end - e.begin)});
    } else {
      unsupported.push_back({std::move(e.name), std::string(e.type->name), std::move(e.shape)});
    }
  }
  set_tensors(std::move(tensors), std::move(unsupported));
}

const SafetensorsType* find_safetensors_type(std::string_view name) {
  return find_by(kSafetensorsTypes, &SafetensorsType::name, name);
}

std::string_view safetensors_type_name(DType dtype) {
  const SafetensorsType* const type = find_by(kSafetensorsTypes, &SafetensorsType::dtype, dtype);
  GPT_ASSERT(type != nullptr);
  return type->name;
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t body_bytes,
                                           const std::string& what) {
  if (text.empty() || text.front() != '{') {
    fail("{} is not a safetensors file: expected the header to start with '{{', found {}", what,
         text.empty() ? "nothing" : printable(text.substr(0, 1)));
  }
  HeaderReader reader(what);
  visit_members(text, fmt::format("the header of {}", what), kJsonLimits, kMemberValues,
                [&](const std::string& name, const json& value) { reader.member(name, value); });
  SafetensorsHeader header = reader.take();
  std::ranges::sort(header.entries, [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_layout(header.entries, body_bytes, what);
  return header;
}

}  // namespace gpt
