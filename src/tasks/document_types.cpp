#include "tasks/document_types.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json_text.h"
#include "base/utf8.h"
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

// The kind of a column with values of two kinds.
Kind common_kind(Kind a, Kind b) {
  if (a == b || b == Kind::null) return a;
  if (a == Kind::null) return b;
  const auto are = [&](Kind x, Kind y) { return (a == x && b == y) || (a == y && b == x); };
  if (are(Kind::integer, Kind::fraction)) return Kind::fraction;
  if (are(Kind::text, Kind::datetime)) return Kind::text;
  return Kind::mixed;
}

// The type of a column, of a list's elements (one unnamed field) or of an object's fields.
class Type {
 public:
  void add(const Value& value, TextTypes texts) {
    if (value.is_null() || kind_ == Kind::mixed) return;
    const bool first = kind_ == Kind::null;
    kind_ = common_kind(kind_, kind_of(value, texts));
    if (kind_ == Kind::list) {
      if (fields_.empty()) fields_.emplace_back("", Type());
      for (const Value& element : value)
        fields_[0].second.add(element, texts);
    }
    if (kind_ == Kind::object) add_object(value, first, texts);
    if (kind_ == Kind::mixed) fields_.clear();
  }

  bool has_mixed() const {
    return kind_ == Kind::mixed ||
           std::ranges::any_of(fields_, [](const auto& field) { return field.second.has_mixed(); });
  }

  void apply(Value& value) const {
    if (value.is_null()) return;
    switch (kind_) {
      case Kind::fraction:
        value =
            is_big_integer(value) ? std::strtod(number_text(value).c_str(), nullptr) : value.get<double>();
        break;
      case Kind::datetime:
        value = PythonDatetime::parse(value.get_ref<const std::string&>())->json<Value>();
        break;
      case Kind::list:
        for (Value& element : value)
          fields_[0].second.apply(element);
        break;
      case Kind::object:
        apply_object(value);
        break;
      case Kind::mixed:
        if (value.is_string()) decode(value);
        break;
      default:
        break;
    }
  }

 private:
  void add_object(const Value& value, bool first, TextTypes texts) {
    if (first) {
      for (const auto& [key, member] : value.items())
        fields_.emplace_back(key, Type());
    }
    const bool same_keys = value.size() == fields_.size() && std::ranges::all_of(fields_, [&](const auto& f) {
                             return value.contains(f.first);
                           });
    if (value.empty() || !same_keys) {
      kind_ = Kind::mixed;
      return;
    }
    for (auto& [key, type] : fields_)
      type.add(value.at(key), texts);
  }

  void apply_object(Value& value) const {
    Value ordered = Value::object();
    for (const auto& [key, type] : fields_) {
      Value& member = value.at(key);
      type.apply(member);
      ordered.get_ref<Value::object_t&>().emplace_back(key, std::move(member));
    }
    value = std::move(ordered);
  }

  static void decode(Value& text) {
    Value decoded = Value::parse(text.get_ref<const std::string&>(), nullptr, false);
    if (!decoded.is_discarded()) text = std::move(decoded);
  }

  Kind kind_ = Kind::null;
  std::vector<std::pair<std::string, Type>> fields_;
};

bool has_big_integer(const Value& value) {
  return is_big_integer(value) ||
         (value.is_structured() && std::any_of(value.begin(), value.end(), has_big_integer));
}

// `datasets` detects columns of different kinds with ujson, which reads no integer beyond 64 bits.
void check_mixed(const std::vector<std::string>& names, const std::map<std::string, Type>& types,
                 const std::vector<Value>& docs) {
  const auto mixed =
      std::ranges::find_if(names, [&](const auto& name) { return types.at(name).has_mixed(); });
  if (mixed == names.end() || std::ranges::none_of(docs, has_big_integer)) return;
  fail(
      "\"{}\": expected values of one type, since the documents have integers beyond 64 bits, found several "
      "types; write such integers as strings",
      printable_text(*mixed, 64));
}

}  // namespace

void type_documents(std::vector<nlohmann::ordered_json>& docs, TextTypes texts) {
  std::vector<std::string> names;
  std::map<std::string, Type> types;
  for (const Value& doc : docs) {
    for (const auto& [name, value] : doc.items()) {
      const auto [type, added] = types.try_emplace(name);
      if (added) names.push_back(name);
      type->second.add(value, texts);
    }
    if (names.size() > kMaxFields) fail("expected at most {} different fields", kMaxFields);
  }
  check_mixed(names, types, docs);
  for (Value& doc : docs) {
    Value typed = Value::object();
    for (const std::string& name : names) {
      const auto found = doc.find(name);
      Value value = found == doc.end() ? Value() : std::move(*found);
      types.at(name).apply(value);
      typed.get_ref<Value::object_t&>().emplace_back(name, std::move(value));
    }
    doc = std::move(typed);
  }
}

}  // namespace gpt
