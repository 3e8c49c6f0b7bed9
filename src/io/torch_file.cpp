#include "io/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/printable.h"
#include "base/ranges.h"
#include "io/legacy_torch.h"
#include "io/pickle.h"
#include "io/zip.h"
#include "tensor/convert.h"

namespace gpt {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kExpectedTorchFile = "a floating-point type";
constexpr size_t kMaxTensors = size_t{1} << 18;
constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxRank = 8;
constexpr int kMaxDepth = 8;              // nesting depth of the settings
constexpr size_t kMaxSettings = 1 << 14;  // number of values in the settings

struct Storage {
  std::string_view global;
  const char* name;  // dtype name in error messages
  size_t size;       // element size in bytes
  std::optional<DType> dtype;
};
constexpr std::array<Storage, 10> kStorages = {{
    {"torch.FloatStorage", "float32", 4, DType::f32},
    {"torch.DoubleStorage", "float64", 8, DType::f64},
    {"torch.HalfStorage", "float16", 2, DType::f16},
    {"torch.BFloat16Storage", "bfloat16", 2, DType::bf16},
    {"torch.LongStorage", "int64", 8, DType::i64},
    {"torch.IntStorage", "int32", 4, DType::i32},
    {"torch.ByteStorage", "uint8", 1, DType::u8},
    {"torch.ShortStorage", "int16", 2, std::nullopt},
    {"torch.CharStorage", "int8", 1, std::nullopt},
    {"torch.BoolStorage", "bool", 1, std::nullopt},
}};

size_t element_size(std::string_view global) {
  const Storage* storage = find_by(kStorages, &Storage::global, global);
  return storage == nullptr ? 0 : storage->size;
}

constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";

constexpr std::array<std::string_view, 14> kGlobals = {
    "collections.OrderedDict", kRebuildTensor,      kRebuildParameter,   "torch.Size",
    kStorages[0].global,       kStorages[1].global, kStorages[2].global, kStorages[3].global,
    kStorages[4].global,       kStorages[5].global, kStorages[6].global, kStorages[7].global,
    kStorages[8].global,       kStorages[9].global};

bool is_call(const PickleValue& v, std::string_view global) {
  return v.kind == Kind::call && v.items[0]->text == global;
}

// Returns the tensor inside a torch.nn.Parameter, or the value itself if it is not a parameter.
const PickleValue& unwrapped(const PickleValue& v) {
  return is_call(v, kRebuildParameter) && !v.items[1]->items.empty() ? *v.items[1]->items[0] : v;
}

bool is_tensor(const PickleValue& v) {
  return is_call(unwrapped(v), kRebuildTensor);
}

bool has_tensors(const PickleValue& v) {
  if (v.kind != Kind::dict) return false;
  for (size_t i = 1; i < v.items.size(); i += 2) {
    if (is_tensor(*v.items[i])) return true;
  }
  return false;
}

std::string plain_name(std::string_view name) {
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view prefix : {"_orig_mod.", "module."}) {
      if (!name.starts_with(prefix)) continue;
      name.remove_prefix(prefix.size());
      found = true;
    }
  }
  return std::string(name);
}

// A strided view of a storage. The offset and the strides are in elements.
struct StridedView {
  const Storage* type = nullptr;
  std::span<const std::byte> storage;
  int64_t offset = 0;
  Shape shape, strides;
};

// Returns the bytes of the storage with the given key.
using StorageOf = std::function<std::span<const std::byte>(std::string_view key)>;

// Converts the tensors of a pickle into views of the file's bytes.
class TensorReader {
 public:
  TensorReader(const StorageOf& storage, const std::string& what, uint64_t file_bytes,
               std::vector<Buffer>& copies)
      : storage_(storage), what_(what), copies_left_(file_bytes), copies_(copies) {}

  StridedView view(const PickleValue& value, const std::string& name) const {
    const auto& arguments = unwrapped(value).items[1]->items;
    if (arguments.size() < 6 || arguments[0]->kind != Kind::persistent)
      bad(name, "its record has unexpected fields");
    StridedView v;
    read_storage(*arguments[0]->items[0], name, v);
    v.offset = number(*arguments[1], name);
    v.shape = numbers(*arguments[2], name);
    v.strides = numbers(*arguments[3], name);
    check(v, name);
    return v;
  }

  // Returns the elements in row-major order: directly from the file if they are contiguous, otherwise as a
  // copy.
  std::span<const std::byte> dense(const StridedView& v, const std::string& name) {
    const auto n = static_cast<size_t>(checked_size(v.shape, name));
    const size_t size = v.type->size;
    if (n == 0) return {};
    if (is_dense(v)) return v.storage.subspan(static_cast<size_t>(v.offset) * size, n * size);
    if (n * size > copies_left_)
      bad(name, "copies of the non-contiguous tensors would be larger than the file");
    copies_left_ -= n * size;
    copies_.emplace_back(n * size, "a non-contiguous tensor");
    gather(v, copies_.back().data());
    return {copies_.back().data(), n * size};
  }

 private:
  template <class... A>
  [[noreturn]] void bad(const std::string& name, fmt::format_string<A...> why, A&&... args) const {
    fail("{}: tensor {}: {}", what_, printable(name), fmt::format(why, std::forward<A>(args)...));
  }

  int64_t number(const PickleValue& v, const std::string& name) const {
    if (v.kind != Kind::integer || v.number < 0) {
      bad(name, "expected sizes and strides of 0 or more, found {}",
          v.kind == Kind::integer ? std::to_string(v.number) : "a value that is not an integer");
    }
    return v.number;
  }
  Shape numbers(const PickleValue& v, const std::string& name) const {
    const PickleValue& tuple =
        is_call(v, "torch.Size") && !v.items[1]->items.empty() ? *v.items[1]->items[0] : v;
    if (tuple.kind != Kind::tuple || tuple.items.size() > kMaxRank)
      bad(name, "expected a shape of up to {} dimensions, found {}", kMaxRank, tuple.items.size());
    return transformed(tuple.items, [&](const PickleValue* item) { return number(*item, name); });
  }

  // A storage id is ("storage", type, key, device, number of elements). Before PyTorch 1.6 a sixth item
  // describes a view of another storage; only None is accepted.
  void read_storage(const PickleValue& id, const std::string& name, StridedView& v) const {
    const auto& parts = id.items;
    const bool whole = parts.size() == 5 || (parts.size() == 6 && parts[5]->kind == Kind::none);
    if (id.kind != Kind::tuple || !whole || parts[0]->text != "storage" || parts[1]->kind != Kind::global ||
        parts[2]->kind != Kind::text || parts[4]->kind != Kind::integer) {
      bad(name, "the record of its storage has unexpected fields");
    }
    v.type = find_by(kStorages, &Storage::global, parts[1]->text);
    if (v.type == nullptr) bad(name, "its storage has an unknown type");
    v.storage = storage_(parts[2]->text);
    const auto elements = static_cast<uint64_t>(std::max<int64_t>(parts[4]->number, 0));
    const size_t found = v.storage.size() / v.type->size;
    if (found < elements) bad(name, "its storage has {} elements, expected {}", found, elements);
    v.storage = v.storage.first(static_cast<size_t>(elements) * v.type->size);
  }

  void check(const StridedView& v, const std::string& name) const {
    if (v.strides.size() != v.shape.size()) {
      bad(name, "it has {} strides, expected one for each of {} dimensions", v.strides.size(),
          v.shape.size());
    }
    Shape positive = v.shape;
    for (int64_t& d : positive)
      d = std::max<int64_t>(d, 1);
    checked_size(positive, what_ + ": tensor " + printable(name));
    const int64_t n = checked_size(v.shape, name);
    const auto elements = static_cast<int64_t>(v.storage.size() / v.type->size);
    if (n == 0) return;
    int64_t last = v.offset;
    for (size_t i = 0; i < v.shape.size(); ++i) {
      int64_t step = 0;
      if (__builtin_mul_overflow(v.shape[i] - 1, v.strides[i], &step) ||
          __builtin_add_overflow(last, step, &last)) {
        beyond_storage(v, name);
      }
    }
    if (last >= elements) beyond_storage(v, name);
    if (n > elements) {
      bad(name, "it has {} elements, but its storage has only {}", n, elements);
    }
  }

  [[noreturn]] void beyond_storage(const StridedView& v, const std::string& name) const {
    bad(name, "the shape {} with strides {} and offset {} exceeds the {} elements of its storage",
        shape_string(v.shape), shape_string(v.strides), v.offset, v.storage.size() / v.type->size);
  }

  static bool is_dense(const StridedView& v) {
    int64_t step = 1;
    for (size_t i = v.shape.size(); i-- > 0;) {
      if (v.shape[i] != 1 && v.strides[i] != step) return false;
      step *= v.shape[i];
    }
    return true;
  }

  static void gather(const StridedView& v, std::byte* to) {
    const size_t size = v.type->size, rank = v.shape.size();
    Shape index(rank, 0);
    int64_t from = v.offset;
    const int64_t n = checked_size(v.shape, "");
    for (int64_t i = 0; i < n; ++i, to += size) {
      std::memcpy(to, v.storage.data() + static_cast<size_t>(from) * size, size);
      for (size_t d = rank; d-- > 0;) {
        from += v.strides[d];
        if (++index[d] < v.shape[d]) break;
        from -= v.strides[d] * v.shape[d];
        index[d] = 0;
      }
    }
  }

  const StorageOf& storage_;
  const std::string& what_;
  uint64_t copies_left_;
  std::vector<Buffer>& copies_;
};

// Returns the value of a 0-d tensor.
nlohmann::json number_json(const Storage& type, const std::byte* data) {
  if (type.dtype && is_float(*type.dtype)) {
    double value = 0;
    convert_matrix({.bytes = {data, type.size}, .dtype = *type.dtype, .rows = 1, .cols = 1},
                   make_view(&value, DType::f64, {1, 1}));
    return value;
  }
  const bool is_signed = type.global != "torch.ByteStorage" && type.global != "torch.BoolStorage";
  uint64_t bits =
      is_signed && (std::to_integer<unsigned>(data[type.size - 1]) & 0x80u) != 0 ? ~uint64_t{0} : 0;
  std::memcpy(&bits, data, type.size);
  if (type.global == "torch.BoolStorage") return bits != 0;
  return static_cast<int64_t>(bits);
}

// Converts plain Python values to JSON. 0-d tensors become numbers. Other tensors and values that are nested
// too deeply become null.
class PlainValues {
 public:
  // `skipped` is a nested dict that is left out of the JSON, because its tensors are already the tensors of
  // the file.
  PlainValues(TensorReader& tensors, const PickleValue& skipped) : tensors_(tensors), skipped_(skipped) {}

  nlohmann::json read(const PickleValue& v, int depth = 0) {
    if (depth > kMaxDepth || left_ == 0 || (depth > 0 && &v == &skipped_)) return nullptr;
    --left_;
    switch (v.kind) {
      case Kind::boolean:
        return v.number != 0;
      case Kind::integer:
        return v.number;
      case Kind::real:
        return v.real;
      case Kind::text:
        return name_of(v);
      case Kind::list:
      case Kind::tuple:
        return list(v, depth);
      case Kind::dict:
        return dict(v, depth);
      case Kind::call:
        return is_tensor(v) ? number(v) : nullptr;
      default:
        return nullptr;
    }
  }

 private:
  static std::string name_of(const PickleValue& v) { return std::string(v.text.substr(0, kMaxNameBytes)); }

  nlohmann::json list(const PickleValue& v, int depth) {
    nlohmann::json out = nlohmann::json::array();
    for (const PickleValue* item : v.items) {
      if (left_ == 0) break;
      out.push_back(read(*item, depth + 1));
    }
    return out;
  }
  nlohmann::json dict(const PickleValue& v, int depth) {
    nlohmann::json out = nlohmann::json::object();
    for (size_t i = 0; i + 1 < v.items.size() && left_ > 0; i += 2) {
      const PickleValue &key = *v.items[i], &value = *v.items[i + 1];
      if (key.kind != Kind::text || (depth == 0 && is_tensor(value))) continue;
      out[name_of(key)] = read(value, depth + 1);
    }
    return out;
  }
  nlohmann::json number(const PickleValue& v) {
    const StridedView view = tensors_.view(v, "of the settings");
    return view.shape.empty() ? number_json(*view.type, tensors_.dense(view, "of the settings").data())
                              : nlohmann::json();
  }

  TensorReader& tensors_;
  const PickleValue& skipped_;
  size_t left_ = kMaxSettings;
};

const PickleValue& state_dict(const PickleValue& root, const std::string& what) {
  for (const std::string_view key : {"model", "state_dict", "model_state_dict"}) {
    const PickleValue* inner = root.find(key);
    if (inner != nullptr && has_tensors(*inner)) return *inner;
  }
  if (has_tensors(root)) return root;
  fail("{}: expected a dict of tensors, at the top level or as \"model\" or \"state_dict\", found none",
       what);
}

bool is_zip(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "PK\3\4", 4) == 0;
}

}  // namespace

bool is_torch_file(std::span<const std::byte> bytes) {
  return is_zip(bytes) || is_legacy_torch(bytes);
}

TorchFile::TorchFile(const std::string& path) : TensorFile(path, kExpectedTorchFile), file_(path) {
  parse(file_.bytes());
}

TorchFile::TorchFile(std::span<const std::byte> bytes, const std::string& what)
    : TensorFile(what, kExpectedTorchFile) {
  parse(bytes);
}

TorchFile::~TorchFile() = default;

void TorchFile::parse(std::span<const std::byte> bytes) {
  if (is_zip(bytes)) return parse_zip(bytes);
  if (!is_legacy_torch(bytes)) {
    fail(
        "{} is not a torch.save file with pickle protocol 2 or later: expected a zip archive, or the format "
        "used before PyTorch 1.6",
        path());
  }
  const LegacyTorch legacy(bytes, path(), kGlobals, element_size);
  read(
      legacy.pickle().root(), [&](std::string_view key) { return legacy.storage(key); }, bytes.size());
}

void TorchFile::parse_zip(std::span<const std::byte> bytes) {
  const ZipFile zip(bytes, path());
  const std::string byteorder = zip.prefix() + "/byteorder";
  if (zip.contains(byteorder)) {
    const auto order = zip.read(byteorder);
    if (std::string_view(reinterpret_cast<const char*>(order.data()), order.size()) != "little") {
      fail("{}: expected little-endian numbers, found {}", path(),
           printable({reinterpret_cast<const char*>(order.data()), order.size()}));
    }
  }
  const Pickle pickle(zip.read(zip.prefix() + "/data.pkl"), path(), kGlobals);
  const std::string data = zip.prefix() + "/data/";
  read(
      pickle.root(), [&](std::string_view key) { return zip.read(data + std::string(key)); }, bytes.size());
}

void TorchFile::read(const PickleValue& root, const StorageOf& storage, uint64_t file_bytes) {
  const PickleValue& dict = state_dict(root, path());
  if (dict.items.size() / 2 > kMaxTensors)
    fail("{}: expected at most {} tensors, found more", path(), kMaxTensors);
  TensorReader reader(storage, path(), file_bytes, copies_);
  settings_ = std::make_unique<nlohmann::json>(nlohmann::json::object());
  if (root.kind == Kind::dict) *settings_ = PlainValues(reader, dict).read(root);
  std::vector<TensorInfo> tensors;  // sorted by name below
  std::vector<UnsupportedTensor> unsupported;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    if (dict.items[i]->kind != Kind::text || dict.items[i]->text.size() > kMaxNameBytes) {
      fail("{}: expected names of up to {} bytes in the dict of tensors", path(), kMaxNameBytes);
    }
    std::string name = plain_name(dict.items[i]->text);
    if (!is_tensor(*dict.items[i + 1])) continue;
    const StridedView view = reader.view(*dict.items[i + 1], name);
    if (view.type->dtype) {
      const auto elements = reader.dense(view, name);
      tensors.push_back({std::move(name), *view.type->dtype, view.shape, elements});
    } else {
      unsupported.push_back({std::move(name), view.type->name, view.shape});
    }
  }
  std::ranges::sort(tensors, [](const auto& a, const auto& b) { return a.name < b.name; });
  set_tensors(std::move(tensors), std::move(unsupported));
}

}  // namespace gpt
