#include "tasks/document_types.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "tasks/ujson.h"
#include "text/jinja/datetime.h"

namespace gpt {
namespace {

using Value = nlohmann::ordered_json;

constexpr size_t kMaxFields = 1024;

enum class Kind : uint8_t { null, boolean, integer, fraction, text, datetime, list, object, mixed };

Kind kind_of(const Value& value, TextTypes texts) {
  if (value.is_boolean()) return Kind::boolean;
  if (is_big_integer(value)) return Kind::fraction;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) return Kind::fraction;
  if (value.is_number_integer()) return Kind::integer;
  if (value.is_number_float()) return Kind::fraction;
  if (value.is_array()) return Kind::list;
  if (value.is_object()) return Kind::object;
  if (!value.is_string()) return Kind::null;
  const bool dated =
      texts == TextTypes::datetimes && PythonDatetime::parse(value.get_ref<const std::string&>());
  return dated ? Kind::datetime : Kind::text;
}

// Returns the kind of a column that has values of two kinds.
Kind common_kind(Kind a, Kind b) {
  if (a == b || b == Kind::null) return a;
  if (a == Kind::null) return b;
  const auto are = [&](Kind x, Kind y) { return (a == x && b == y) || (a == y && b == x); };
  if (are(Kind::integer, Kind::fraction)) return Kind::fraction;
  if (are(Kind::text, Kind::datetime)) return Kind::text;
  return Kind::mixed;
}

// The type of a column. A list type has the type of its elements as one unnamed field, and an object type has
// the types of its fields.
class Type {
 public:
  // Extends the type to include `value`. If `unite` is true, objects with different fields become one object
  // type with the fields of all objects. If `unite` is false, objects with different fields make the type
  // mixed.
  void add(const Value& value, TextTypes texts, bool unite) {
    if (value.is_null() || kind_ == Kind::mixed) return;
    const bool first = kind_ == Kind::null;
    kind_ = common_kind(kind_, kind_of(value, texts));
    if (kind_ == Kind::list) {
      if (fields_.empty()) fields_.emplace_back("", Type());
      for (const Value& element : value)
        fields_[0].second.add(element, texts, unite);
    }
    if (kind_ == Kind::object) add_object(value, first, texts, unite);
    if (kind_ == Kind::mixed) fields_.clear();
  }

  bool has_mixed() const {
    return kind_ == Kind::mixed ||
           std::ranges::any_of(fields_, [](const auto& field) { return field.second.has_mixed(); });
  }

  // Returns true if values of this type can be converted to `first`, the type of the same column in an
  // earlier file.
  bool fits(const Type& first) const {
    if (kind_ == Kind::null || first.kind_ == Kind::mixed) return true;
    if (kind_ == Kind::integer && first.kind_ == Kind::fraction) return true;
    return kind_ == first.kind_ && fields_.size() == first.fields_.size() &&
           std::ranges::all_of(fields_, [&](const auto& field) {
             const auto* other = first.find(field.first);
             return other != nullptr && field.second.fits(*other);
           });
  }

  // Converts a value to this type. `rewritten` is true if `datasets` rewrites the documents with ujson before
  // the conversion.
  void apply(Value& value, bool rewritten) const {
    if (value.is_null()) return;
    switch (kind_) {
      case Kind::fraction:
        value = fraction_of(value, rewritten);
        break;
      case Kind::datetime:
        value = PythonDatetime::parse(value.get_ref<const std::string&>())->json<Value>();
        break;
      case Kind::list:
        for (Value& element : value)
          fields_[0].second.apply(element, rewritten);
        break;
      case Kind::object:
        apply_object(value, rewritten);
        break;
      case Kind::mixed:
        if (value.is_string()) {
          decode(value);
        } else {
          rewrite(value);
        }
        break;
      default:
        break;
    }
  }

 private:
  const Type* find(const std::string& key) const {
    const auto found = std::ranges::find(fields_, key, &std::pair<std::string, Type>::first);
    return found == fields_.end() ? nullptr : &found->second;
  }

  void add_object(const Value& value, bool first, TextTypes texts, bool unite) {
    for (const auto& [key, member] : value.items()) {
      if (first || (unite && find(key) == nullptr)) fields_.emplace_back(key, Type());
    }
    const bool same_keys = value.size() == fields_.size() && std::ranges::all_of(fields_, [&](const auto& f) {
                             return value.contains(f.first);
                           });
    if (!unite && (value.empty() || !same_keys)) {
      kind_ = Kind::mixed;
      return;
    }
    for (auto& [key, type] : fields_) {
      if (value.contains(key)) type.add(value.at(key), texts, unite);
    }
  }

  void apply_object(Value& value, bool rewritten) const {
    Value ordered = Value::object();
    for (const auto& [key, type] : fields_) {
      const auto found = value.find(key);
      Value member = found == value.end() ? Value() : std::move(*found);
      type.apply(member, rewritten);
      ordered.get_ref<Value::object_t&>().emplace_back(key, std::move(member));
    }
    value = std::move(ordered);
  }

  static double fraction_of(const Value& value, bool rewritten) {
    if (is_big_integer(value)) return std::strtod(number_text(value).c_str(), nullptr);
    if (rewritten && value.is_number_float())
      return std::strtod(ujson_text(value.get<double>()).c_str(), nullptr);
    // The JSON parser reads -0 as a signed integer.
    const bool minus_zero =
        !rewritten && value == 0 && value.is_number_integer() && !value.is_number_unsigned();
    return minus_zero ? -0.0 : value.get<double>();
  }

  static void decode(Value& text) {
    const auto& bytes = text.get_ref<const std::string&>();
    const size_t begin = bytes.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos) return;
    if (std::string_view("[{\"").find(bytes[begin]) == std::string_view::npos) {
      if (auto decoded = ujson_scalar(bytes)) text = *std::move(decoded);
      return;
    }
    Value decoded = Value::parse(bytes, nullptr, false);
    if (!decoded.is_discarded()) text = std::move(decoded);
  }

  // Replaces a value with the result of writing and reading it with ujson.
  static void rewrite(Value& value) {
    if (value.is_number_float()) value = *ujson_scalar(ujson_text(value.get<double>()));
    if (!value.is_structured()) return;
    for (Value& member : value)
      rewrite(member);
  }

  Kind kind_ = Kind::null;
  std::vector<std::pair<std::string, Type>> fields_;
};

bool has_big_integer(const Value& value) {
  return is_big_integer(value) ||
         (value.is_structured() && std::any_of(value.begin(), value.end(), has_big_integer));
}

// The columns of a file in the order of their first occurrence.
struct Columns {
  std::vector<std::string> names;
  std::map<std::string, Type> types;

  const std::string* mixed() const {
    const auto found =
        std::ranges::find_if(names, [&](const auto& name) { return types.at(name).has_mixed(); });
    return found == names.end() ? nullptr : &*found;
  }
};

Columns columns_of(std::span<const Value> docs, TextTypes texts, bool unite) {
  Columns columns;
  for (const Value& doc : docs) {
    for (const auto& [name, value] : doc.items()) {
      const auto [type, added] = columns.types.try_emplace(name);
      if (added) columns.names.push_back(name);
      type->second.add(value, texts, unite);
    }
    if (columns.names.size() > kMaxFields) fail("expected at most {} different fields", kMaxFields);
  }
  return columns;
}

// `datasets` rewrites mixed columns with ujson, which can read neither integers beyond 64 bits nor blank
// lines.
void check_mixed(const Columns& columns, const std::vector<Value>& docs,
                 const std::vector<DocumentFile>& files) {
  const std::string* const mixed = columns.mixed();
  if (mixed == nullptr) return;
  if (std::ranges::any_of(docs, has_big_integer)) {
    fail(
        "\"{}\": expected values of one type, found several types, which are not supported together with "
        "integers of more than 64 bits; write these integers as strings",
        printable_text(*mixed, 64));
  }
  if (std::ranges::any_of(files, &DocumentFile::has_blank_line)) {
    fail(
        "\"{}\": expected values of one type, found several types, which are not supported in a file with a "
        "blank line; remove the blank line",
        printable_text(*mixed, 64));
  }
}

// `datasets` converts the values of later files to the types of the first file.
void check_later_file(const Columns& columns, const Columns& first) {
  for (const auto& [name, type] : columns.types) {
    const auto known = first.types.find(name);
    if (known == first.types.end() || !type.fits(known->second)) {
      fail("\"{}\": expected values of the same types as in the first file, found different types",
           printable_text(name, 64));
    }
  }
}

}  // namespace

void type_documents(std::vector<nlohmann::ordered_json>& docs, TextTypes texts,
                    const std::vector<DocumentFile>& files) {
  const std::span<const Value> all = docs;
  Columns first;
  for (size_t i = 0; i < files.size(); ++i) {
    const size_t end = i + 1 < files.size() ? files[i + 1].begin : docs.size();
    const auto part = all.subspan(files[i].begin, end - files[i].begin);
    // In later files, objects with different fields do not make a column mixed.
    Columns columns = columns_of(part, texts, files[i].has_blank_line || i > 0);
    if (i > 0) {
      check_later_file(columns, first);
    } else {
      first = std::move(columns);
    }
  }
  check_mixed(first, docs, files);
  const bool rewritten = first.mixed() != nullptr;
  for (Value& doc : docs) {
    Value typed = Value::object();
    for (const std::string& name : first.names) {
      const auto found = doc.find(name);
      Value value = found == doc.end() ? Value() : std::move(*found);
      first.types.at(name).apply(value, rewritten);
      typed.get_ref<Value::object_t&>().emplace_back(name, std::move(value));
    }
    doc = std::move(typed);
  }
}

}  // namespace gpt
