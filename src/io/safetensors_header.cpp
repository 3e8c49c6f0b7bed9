#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "io/json.h"
#include "io/printable.h"

namespace gpt {
namespace {

constexpr std::array<SafetensorsType, 22> kTypes = {{
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

constexpr JsonLimits kJsonLimits{
    .max_bytes = SafetensorsLimits::header_bytes,
    .max_depth = 8,
    .max_elements = 24 * SafetensorsLimits::tensors,
    .max_string_bytes = uint64_t{8} << 20,
};

enum class Field { none, dtype, shape, offsets, unknown };

// Follows the JSON of a header and keeps only what a tensor list needs; there is never a tree.
class HeaderReader : public JsonVisitor {
 public:
  explicit HeaderReader(const std::string& what) : what_(what) {}

  SafetensorsHeader take() { return std::move(header_); }

  void begin_object() override {
    if (skipping()) return;
    switch (place_) {
      case Place::outside:
        place_ = Place::top;
        return;
      case Place::top:
        begin_value();
        return;
      default:
        wrong("an object");
    }
  }

  void end_object() override {
    if (left_skipped()) return;
    if (place_ == Place::tensor) finish_tensor();
    place_ = place_ == Place::top ? Place::outside : Place::top;
  }

  void begin_array() override {
    if (skipping()) return;
    if (place_ == Place::tensor && field_ == Field::shape) {
      place_ = Place::shape;
    } else if (place_ == Place::tensor && field_ == Field::offsets) {
      place_ = Place::offsets;
    } else {
      wrong("an array");
    }
  }

  void end_array() override {
    if (left_skipped()) return;
    if (place_ == Place::offsets && n_offsets_ != 2) wrong("an array of another length");
    place_ = Place::tensor;
  }

  void key(std::string& name) override {
    if (skipped_ > 0) return;
    if (place_ == Place::tensor) {
      set_field(name);
      return;
    }
    count_text(name);
    if (place_ == Place::top) check_name(name);
    key_ = std::move(name);
  }

  void string(std::string& value) override {
    if (ignored()) return;
    if (place_ == Place::metadata) {
      add_metadata(value);
    } else if (place_ == Place::tensor && field_ == Field::dtype) {
      entry().type = find_safetensors_type(value);
      if (entry().type == nullptr) {
        fail("{}: tensor {} has the unknown type {}; expected F32, F16, BF16, I64, ...", what_,
             printable(entry().name), printable(value));
      }
    } else {
      wrong("a string");
    }
  }

  void number(uint64_t value) override {
    if (ignored()) return;
    if (place_ == Place::shape) {
      add_dimension(value);
    } else if (place_ == Place::offsets && n_offsets_ < 2) {
      (n_offsets_ == 0 ? entry().begin : entry().end) = value;
      ++n_offsets_;
    } else {
      wrong("a number");
    }
  }

  void other(std::string_view kind) override {
    if (!ignored()) wrong(kind);
  }

 private:
  enum class Place { outside, top, metadata, tensor, shape, offsets };

  SafetensorsEntry& entry() { return header_.entries.back(); }

  // Values of fields that the format does not define are stepped over, whatever they are.
  bool skipping() {
    const bool skip = skipped_ > 0 || (place_ == Place::tensor && field_ == Field::unknown);
    if (skip) ++skipped_;
    return skip;
  }
  bool left_skipped() {
    if (skipped_ == 0) return false;
    --skipped_;
    return true;
  }
  bool ignored() const { return skipped_ > 0 || (place_ == Place::tensor && field_ == Field::unknown); }

  void begin_value() {
    if (key_ == "__metadata__") {
      if (std::exchange(has_metadata_, true)) fail("{}: duplicate key \"__metadata__\"", what_);
      place_ = Place::metadata;
      return;
    }
    if (header_.entries.size() >= SafetensorsLimits::tensors) {
      fail("{}: expected at most {} tensors, found more", what_, SafetensorsLimits::tensors);
    }
    header_.entries.emplace_back();
    entry().name = std::move(key_);
    place_ = Place::tensor;
    has_dtype_ = has_shape_ = has_offsets_ = false;
    n_offsets_ = 0;
  }

  void set_field(const std::string& name) {
    bool* seen = nullptr;
    if (name == "dtype") {
      field_ = Field::dtype;
      seen = &has_dtype_;
    } else if (name == "shape") {
      field_ = Field::shape;
      seen = &has_shape_;
    } else if (name == "data_offsets") {
      field_ = Field::offsets;
      seen = &has_offsets_;
    } else {
      field_ = Field::unknown;
      return;
    }
    if (std::exchange(*seen, true)) {
      fail("{}: tensor {} has {} twice", what_, printable(entry().name), name);
    }
  }

  void finish_tensor() {
    if (has_dtype_ && has_shape_ && has_offsets_) return;
    fail("{}: tensor {} has no {}", what_, printable(entry().name),
         !has_dtype_ ? "dtype" : (!has_shape_ ? "shape" : "data_offsets"));
  }

  void add_metadata(std::string& value) {
    count_text(value);
    if (header_.metadata.size() >= SafetensorsLimits::metadata_entries) {
      fail("{}: expected at most {} metadata entries, found more", what_,
           SafetensorsLimits::metadata_entries);
    }
    if (!header_.metadata.try_emplace(key_, std::move(value)).second) {
      fail("{}: duplicate metadata key {}", what_, printable(key_));
    }
  }

  void add_dimension(uint64_t value) {
    if (entry().shape.size() >= SafetensorsLimits::rank) {
      fail("{}: tensor {} has more than {} dimensions", what_, printable(entry().name),
           SafetensorsLimits::rank);
    }
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail("{}: tensor {} has an impossible dimension, {}", what_, printable(entry().name), value);
    }
    entry().shape.push_back(static_cast<int64_t>(value));
  }

  void check_name(const std::string& name) {
    if (name.empty()) fail("{}: a tensor has an empty name", what_);
    if (name.size() > SafetensorsLimits::name_bytes) {
      fail("{}: the tensor name {} is longer than {} bytes", what_, printable(name),
           SafetensorsLimits::name_bytes);
    }
  }

  void count_text(const std::string& text) {
    text_bytes_ += text.size();
    if (text_bytes_ > SafetensorsLimits::text_bytes) {
      fail("{}: names and metadata take more than {} bytes", what_, SafetensorsLimits::text_bytes);
    }
  }

  [[noreturn]] void wrong(std::string_view found) {
    switch (place_) {
      case Place::outside:
        fail("{}: expected the header to be a JSON object, found {}", what_, found);
      case Place::top:
        fail("{}: expected an object for {}, found {}", what_, printable(key_), found);
      case Place::metadata:
        fail("{}: expected a string for the metadata key {}, found {}", what_, printable(key_), found);
      case Place::shape:
        fail("{}: tensor {}: expected whole numbers in shape, found {}", what_, printable(entry().name),
             found);
      case Place::offsets:
        fail("{}: tensor {}: expected two whole numbers in data_offsets, found {}", what_,
             printable(entry().name), found);
      case Place::tensor:
        break;
    }
    fail("{}: tensor {}: expected {}, found {}", what_, printable(entry().name),
         field_ == Field::dtype
             ? "a string for dtype"
             : (field_ == Field::shape ? "an array for shape" : "an array for data_offsets"),
         found);
  }

  const std::string& what_;
  SafetensorsHeader header_;
  Place place_ = Place::outside;
  Field field_ = Field::none;
  std::string key_;
  int skipped_ = 0;  // open objects and arrays inside an unknown field
  int n_offsets_ = 0;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false, has_metadata_ = false;
  size_t text_bytes_ = 0;
};

// The bytes that type and shape ask for. Dimensions of zero do not hide an absurd rest: whoever
// multiplies the other ones later must not overflow either.
uint64_t expected_bytes(const SafetensorsEntry& e, const std::string& what) {
  const std::string name = fmt::format("{}: tensor {}", what, printable(e.name));
  Shape positive = e.shape;
  for (int64_t& d : positive)
    d = std::max<int64_t>(d, 1);
  const int64_t largest = checked_size(positive, name);
  int64_t bits = 0;
  if (__builtin_mul_overflow(largest, int64_t{e.type->bits}, &bits)) {
    fail("{}: the shape {} is not possible", name, shape_string(e.shape));
  }
  bits = checked_size(e.shape, name) * e.type->bits;
  if (bits % 8 != 0)
    fail("{}: {} does not fill whole bytes with {}", name, shape_string(e.shape), e.type->name);
  return static_cast<uint64_t>(bits) / 8;
}

void check_layout(const std::vector<SafetensorsEntry>& entries, uint64_t body_bytes,
                  const std::string& what) {
  uint64_t covered = 0;
  for (const SafetensorsEntry& e : entries) {
    if (e.end < e.begin || e.end > body_bytes) {
      fail(
          "{}: tensor {} lies at [{},{}), expected a range inside the {} bytes of data; the file is damaged "
          "or incomplete",
          what, printable(e.name), e.begin, e.end, body_bytes);
    }
    const uint64_t expected = expected_bytes(e, what);
    if (e.end - e.begin != expected) {
      fail("{}: tensor {} ({} {}) needs {} bytes, found {}", what, printable(e.name), e.type->name,
           shape_string(e.shape), expected, e.end - e.begin);
    }
    if (e.begin != covered) {
      fail("{}: tensor {} starts at byte {}, expected {}: tensors must neither overlap nor leave holes", what,
           printable(e.name), e.begin, covered);
    }
    covered = e.end;
  }
  if (covered != body_bytes) {
    fail(
        "{}: the tensors cover {} bytes, found {} bytes of data; the file is damaged or has something "
        "appended",
        what, covered, body_bytes);
  }
}

}  // namespace

const SafetensorsType* find_safetensors_type(std::string_view name) {
  for (const SafetensorsType& type : kTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::string_view safetensors_type_name(DType dtype) {
  for (const SafetensorsType& type : kTypes) {
    if (type.dtype == dtype) return type.name;
  }
  GPT_ASSERT(false);
  return {};
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t body_bytes,
                                           const std::string& what) {
  if (text.empty() || text.front() != '{') {
    fail("{} is not a safetensors file: expected the header to start with '{{', found {}", what,
         text.empty() ? "nothing" : printable(text.substr(0, 1)));
  }
  HeaderReader reader(what);
  visit_json(text, fmt::format("the header of {}", what), kJsonLimits, reader);
  SafetensorsHeader header = reader.take();
  std::ranges::sort(header.entries, [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_layout(header.entries, body_bytes, what);
  return header;
}

}  // namespace gpt
