#include "io/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "io/byte_reader.h"

namespace gpt {
namespace {

constexpr std::string_view kExpected =
    "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, Q4_K, Q5_K or Q6_K; quantize the model to one of "
    "these";

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

// Calls f with the next number and advances `p` past it.
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

int64_t as_int64(uint64_t value, const std::string& path, std::string_view key) {
  if (value > uint64_t{INT64_MAX}) fail("{}: {} is too large: {}", path, printable(key), value);
  return static_cast<int64_t>(value);
}

int64_t load_integer(GgufType type, const std::byte*& p, const std::string& path, std::string_view key) {
  if (type == GgufType::u64) return as_int64(load<uint64_t>(p), path, key);
  return with_number(type, p, [](auto x) { return static_cast<int64_t>(x); });
}

constexpr BlockSize block(int64_t elements, int64_t bytes) {
  return {elements, bytes};
}

// Types without a DType are listed too. The size of a tensor of such a type can be checked, so files with
// such tensors can be opened.
constexpr std::array kTypes = {
    GgmlType{0, "F32", block_size(DType::f32), DType::f32},
    GgmlType{1, "F16", block_size(DType::f16), DType::f16},
    GgmlType{2, "Q4_0", block_size(DType::q4_0), DType::q4_0},
    GgmlType{3, "Q4_1", block_size(DType::q4_1), DType::q4_1},
    GgmlType{6, "Q5_0", block_size(DType::q5_0), DType::q5_0},
    GgmlType{7, "Q5_1", block_size(DType::q5_1), DType::q5_1},
    GgmlType{8, "Q8_0", block_size(DType::q8_0), DType::q8_0},
    GgmlType{9, "Q8_1", block(32, 36), {}},
    GgmlType{10, "Q2_K", block(256, 84), {}},
    GgmlType{11, "Q3_K", block(256, 110), {}},
    GgmlType{12, "Q4_K", block_size(DType::q4_k), DType::q4_k},
    GgmlType{13, "Q5_K", block_size(DType::q5_k), DType::q5_k},
    GgmlType{14, "Q6_K", block_size(DType::q6_k), DType::q6_k},
    GgmlType{15, "Q8_K", block(256, 292), {}},
    GgmlType{16, "IQ2_XXS", block(256, 66), {}},
    GgmlType{17, "IQ2_XS", block(256, 74), {}},
    GgmlType{18, "IQ3_XXS", block(256, 98), {}},
    GgmlType{19, "IQ1_S", block(256, 50), {}},
    GgmlType{20, "IQ4_NL", block_size(DType::iq4_nl), DType::iq4_nl},
    GgmlType{21, "IQ3_S", block(256, 110), {}},
    GgmlType{22, "IQ2_S", block(256, 82), {}},
    GgmlType{23, "IQ4_XS", block(256, 136), {}},
    GgmlType{24, "I8", block_size(DType::i8), DType::i8},
    GgmlType{25, "I16", block(1, 2), {}},
    GgmlType{26, "I32", block_size(DType::i32), DType::i32},
    GgmlType{27, "I64", block_size(DType::i64), DType::i64},
    GgmlType{28, "F64", block_size(DType::f64), DType::f64},
    GgmlType{29, "IQ1_M", block(256, 56), {}},
    GgmlType{30, "BF16", block_size(DType::bf16), DType::bf16},
    GgmlType{34, "TQ1_0", block(256, 54), {}},
    GgmlType{35, "TQ2_0", block(256, 66), {}},
    GgmlType{39, "MXFP4", block(32, 17), {}},
};

// Returns the size of a fixed-size value in bytes, or 0 for strings and arrays.
uint64_t value_bytes(GgufType type) {
  constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}

std::string_view read_string(ByteReader& in, uint64_t limit, std::string_view part, const std::string& what) {
  const auto length = in.number<uint64_t>(part);
  if (length > limit) fail("{}: expected {} of at most {} bytes, found {}", what, part, limit, length);
  return in.text(length, part);
}

// Reads the number of items that follow. Each item takes at least `least` bytes, so a count that exceeds the
// remaining bytes is rejected.
uint64_t read_count(ByteReader& in, uint64_t limit, uint64_t least, std::string_view part,
                    const std::string& what) {
  const auto n = in.number<uint64_t>(part);
  if (n > limit) fail("{}: expected at most {} {}, found {}", what, limit, part, n);
  if (n > in.left() / least) {
    fail("{} is damaged or incomplete: its {} bytes cannot hold {} {}", what, in.position() + in.left(), n,
         part);
  }
  return n;
}

// Minimum size of a metadata entry: the key length, a key of one letter, the type, and a value of one byte.
constexpr uint64_t kLeastEntry = 8 + 1 + 4 + 1;
constexpr uint64_t kLeastTensor = 8 + 1 + 4 + 4 + 8;

GgufType read_type(ByteReader& in, const std::string& what, std::string_view key) {
  const auto number = in.number<uint32_t>("the type of a value");
  if (number > static_cast<uint32_t>(GgufType::f64)) {
    fail("{}: the value of {} has the unknown type {}", what, printable(key), number);
  }
  return static_cast<GgufType>(number);
}

void check_booleans(std::span<const std::byte> bytes, const std::string& what, std::string_view key) {
  for (const std::byte b : bytes) {
    if (b > std::byte{1}) {
      fail("{}: the boolean {} is {}, expected 0 or 1", what, printable(key), std::to_integer<int>(b));
    }
  }
}

// `in` must be a reader of `file`.
GgufEntry read_entry(ByteReader& in, std::span<const std::byte> file, const std::string& what) {
  GgufEntry e;
  e.key = read_string(in, GgufLimits::name_bytes, "a metadata key", what);
  if (e.key.empty()) fail("{}: a metadata key is empty", what);
  e.type = read_type(in, what, e.key);
  if (e.type == GgufType::array) {
    e.is_array = true;
    e.type = read_type(in, what, e.key);
    if (e.type == GgufType::array) fail("{}: the value of {} is an array of arrays", what, printable(e.key));
    const uint64_t least = e.type == GgufType::string ? 8 : value_bytes(e.type);
    e.count = read_count(in, GgufLimits::array_elements, least, "elements of an array", what);
  }
  const uint64_t begin = in.position();
  if (e.type == GgufType::string) {
    for (uint64_t i = 0; i < e.count; ++i)
      read_string(in, GgufLimits::string_bytes, "a metadata value", what);
  } else {
    in.take(e.count * value_bytes(e.type), "a metadata value");
  }
  e.bytes = file.subspan(begin, in.position() - begin);
  if (e.type == GgufType::boolean) check_booleans(e.bytes, what, e.key);
  return e;
}

// Returns the size of a tensor in bytes. Throws Error if the shape of the tensor is invalid.
uint64_t tensor_bytes(const GgufTensorEntry& t, const std::string& what) {
  const std::string name = fmt::format("{}: tensor {}", what, printable(t.name));
  for (const int64_t d : t.shape) {
    if (d < 1) fail("{}: expected dimensions of 1 or more, found the shape {}", name, shape_string(t.shape));
  }
  const int64_t n = checked_size(t.shape, name), row = t.shape.empty() ? 1 : t.shape.back();
  if (row % t.type->block.elements != 0) {
    fail("{}: expected rows of {} to be whole blocks of {} elements, found the shape {}", name, t.type->name,
         t.type->block.elements, shape_string(t.shape));
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(n / t.type->block.elements, t.type->block.bytes, &bytes)) {
    fail("{}: the shape {} is too large", name, shape_string(t.shape));
  }
  return static_cast<uint64_t>(bytes);
}

GgufTensorEntry read_tensor(ByteReader& in, const std::string& what) {
  GgufTensorEntry t;
  t.name = read_string(in, GgufLimits::name_bytes, "a tensor name", what);
  if (t.name.empty()) fail("{}: a tensor name is empty", what);
  const auto rank = in.number<uint32_t>("the rank of a tensor");
  if (rank > GgufLimits::rank) {
    fail("{}: tensor {}: expected at most {} dimensions, found {}", what, printable(t.name), GgufLimits::rank,
         rank);
  }
  t.shape.resize(rank);
  for (uint32_t i = 0; i < rank; ++i)
    t.shape[rank - 1 - i] = in.number<int64_t>("the shape of a tensor");
  const auto number = in.number<uint32_t>("the type of a tensor");
  t.type = find_ggml_type(number);
  if (t.type == nullptr) fail("{}: tensor {} has the unknown type {}", what, printable(t.name), number);
  t.begin = in.number<uint64_t>("the offset of a tensor");
  t.size = tensor_bytes(t, what);
  return t;
}

std::string type_text(const GgufEntry& e) {
  return fmt::format("{}type {}", e.is_array ? "an array of " : "", static_cast<uint32_t>(e.type));
}

uint32_t read_alignment(std::span<const GgufEntry> metadata, const std::string& what) {
  uint32_t alignment = kGgufAlignment;
  for (const GgufEntry& e : metadata) {
    if (e.key != kGgufAlignmentKey) continue;
    if (e.type != GgufType::u32 || e.is_array) {
      fail("{}: expected {} to be a single number of type {}, found {}", what, kGgufAlignmentKey,
           static_cast<uint32_t>(GgufType::u32), type_text(e));
    }
    std::memcpy(&alignment, e.bytes.data(), sizeof alignment);
    if (!std::has_single_bit(alignment) || alignment > GgufLimits::alignment) {
      fail("{}: expected {} to be a power of two up to {}, found {}", what, kGgufAlignmentKey,
           GgufLimits::alignment, alignment);
    }
  }
  return alignment;
}

// Checks that every tensor starts at a multiple of the alignment, ends inside the data section, and does not
// overlap another tensor.
void check_places(std::span<const GgufTensorEntry> tensors, uint64_t data_bytes, uint32_t alignment,
                  const std::string& what) {
  std::vector<const GgufTensorEntry*> order;
  for (const GgufTensorEntry& t : tensors) {
    if (t.begin % alignment != 0) {
      fail("{}: tensor {} begins at byte {} of the data, expected a multiple of {}", what, printable(t.name),
           t.begin, alignment);
    }
    if (t.begin > data_bytes || t.size > data_bytes - t.begin) {
      fail("{} is damaged or incomplete: tensor {} has {} bytes at offset {}, but the data section has {}",
           what, printable(t.name), t.size, t.begin, data_bytes);
    }
    order.push_back(&t);
  }
  std::ranges::sort(order, [](const auto* a, const auto* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i]->begin - order[i - 1]->begin < order[i - 1]->size) {
      fail("{}: the tensors {} and {} overlap", what, printable(order[i - 1]->name),
           printable(order[i]->name));
    }
  }
}

uint32_t read_version(ByteReader& in, std::span<const std::byte> file, const std::string& what) {
  if (file.size() < 4 || std::memcmp(file.data(), "GGUF", 4) != 0) {
    fail("{} is not a GGUF file: expected it to begin with \"GGUF\", found {}", what,
         printable(in.text(std::min<size_t>(file.size(), 4))));
  }
  in.take(4, "the header");
  const auto version = in.number<uint32_t>("the header");
  // Version 3 also allows big-endian files. In a big-endian file the low 16 bits of the version read as zero.
  if (version != 2 && version != kGgufVersion) {
    const bool big_endian = version != 0 && (version & 0xffff) == 0;
    fail("{}: expected GGUF version 2 or {}, found {}; convert the model again", what, kGgufVersion,
         big_endian ? "a big-endian file" : fmt::format("version {}", version));
  }
  return version;
}

}  // namespace

GgufFile::GgufFile(const std::string& path) : TensorFile(path, kExpected), file_(path) {
  file_.prefer_large_pages();  // quantized matmuls read the weights directly from the mapping
  parse(file_.bytes());
}

GgufFile::GgufFile(std::span<const std::byte> bytes, const std::string& what) : TensorFile(what, kExpected) {
  parse(bytes);
}

void GgufFile::parse(std::span<const std::byte> bytes) {
  GgufHeader header = parse_gguf_header(bytes, path());
  version_ = header.version;
  metadata_ = std::move(header.metadata);
  for (const GgufEntry& e : metadata_) {
    if (!by_key_.emplace(e.key, &e).second) fail("{}: the key {} occurs twice", path(), printable(e.key));
  }
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
  const auto at = by_key_.find(key);
  return at == by_key_.end() ? nullptr : at->second;
}

// Returns the entry of a key after checking its type, or nullptr if the key is missing.
const GgufEntry* GgufFile::typed(std::string_view key, bool array, bool (*fits)(GgufType),
                                 const char* kind) const {
  const GgufEntry* e = entry(key);
  if (e != nullptr && (e->is_array != array || !fits(e->type))) {
    fail("{}: expected {} to be {}, found {}", path(), printable(key), kind, type_text(*e));
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

const GgmlType* find_ggml_type(uint32_t number) {
  return find_by(kTypes, &GgmlType::number, number);
}

const GgmlType& ggml_type(DType dtype) {
  const GgmlType* const type = find_by(kTypes, &GgmlType::dtype, dtype);
  GPT_ASSERT(type != nullptr);
  return *type;
}

GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& what) {
  ByteReader in(file, what);
  GgufHeader header;
  header.version = read_version(in, file, what);
  const uint64_t n_tensors = read_count(in, GgufLimits::tensors, 1, "tensors", what);
  const uint64_t n_entries =
      read_count(in, GgufLimits::metadata_entries, kLeastEntry, "metadata entries", what);
  if (n_tensors > (file.size() - in.position()) / kLeastTensor) {
    fail("{} is damaged or incomplete: its {} bytes cannot hold {} tensors", what, file.size(), n_tensors);
  }
  header.metadata.reserve(n_entries);
  for (uint64_t i = 0; i < n_entries; ++i)
    header.metadata.push_back(read_entry(in, file, what));
  header.tensors.reserve(n_tensors);
  for (uint64_t i = 0; i < n_tensors; ++i)
    header.tensors.push_back(read_tensor(in, what));
  const uint32_t alignment = read_alignment(header.metadata, what);
  header.data_begin = (in.position() + alignment - 1) / alignment * alignment;
  // A file without tensors may end before the padding.
  const uint64_t data_bytes = file.size() - std::min<uint64_t>(file.size(), header.data_begin);
  check_places(header.tensors, data_bytes, alignment, what);
  return header;
}

}  // namespace gpt
