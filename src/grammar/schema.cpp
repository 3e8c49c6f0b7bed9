#include "grammar/schema.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "grammar/json_numbers.h"

namespace gpt::grammar {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostReferences = 64;  // maximum number of references in a chain

// "~1" decodes to '/' and "~0" to '~' (RFC 6901). "%41" decodes to 'A', as in any URI.
std::string unescaped(std::string_view part) {
  std::string out;
  for (size_t i = 0; i < part.size(); ++i) {
    unsigned code = 0;
    if (part[i] == '~' && i + 1 < part.size() && (part[i + 1] == '0' || part[i + 1] == '1')) {
      out += part[++i] == '0' ? '~' : '/';
    } else if (part[i] == '%' && i + 2 < part.size() &&
               std::from_chars(part.data() + i + 1, part.data() + i + 3, code, 16).ptr ==
                   part.data() + i + 3) {
      out += static_cast<char>(code);
      i += 2;
    } else {
      out += part[i];
    }
  }
  return out;
}

const Json* member(const Json& value, const std::string& key) {
  if (value.is_object()) {
    const auto found = value.find(key);
    return found == value.end() ? nullptr : &*found;
  }
  size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (!value.is_array() || error != std::errc() || end != key.data() + key.size() || index >= value.size())
    return nullptr;
  return &value[index];
}

}  // namespace

std::string kind_of(const Json& value) {
  return std::string(json_kind(value));
}

void fail_schema(const std::string& pointer, const std::string& message) {
  fail("JSON schema: {}: {}", pointer, message);
}

std::string pointer_to(const std::string& pointer, const std::string& key) {
  std::string out = pointer + "/";
  for (const char c : key)
    out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

bool is_annotation(const std::string& keyword) {
  static const std::set<std::string> known = {
      "title",         "description",  "default",      "examples", "example",          "$comment",
      "$schema",       "$vocabulary",  "$anchor",      "readOnly", "writeOnly",        "deprecated",
      "definitions",   "$defs",        "xml",          "nullable", "contentMediaType", "contentEncoding",
      "contentSchema", "externalDocs", "discriminator"};
  return known.contains(keyword) || keyword.starts_with("x-");
}

bool lists_values(const Json& schema) {
  return schema.is_object() && (schema.contains("const") || schema.contains("enum"));
}

std::vector<Json> listed_values(const SchemaAt& schema) {
  const Json& s = *schema.value;
  if (s.contains("enum") && !s["enum"].is_array())
    fail_schema(schema.pointer + "/enum", "expected a list, found " + kind_of(s["enum"]));
  if (!s.contains("const")) return {s["enum"].begin(), s["enum"].end()};
  const Json& value = s["const"];
  if (s.contains("enum") && std::find(s["enum"].begin(), s["enum"].end(), value) == s["enum"].end())
    return {};
  return {value};
}

uint8_t types_of_value(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_string()) return kString;
  if (value.is_array()) return kArray;
  if (value.is_object()) return kObject;
  if (value.is_number_float() && std::floor(value.get<double>()) != value.get<double>()) return kFraction;
  return kInteger;
}

uint8_t types_of_keyword(const SchemaAt& schema) {
  const auto type = schema.value->find("type");
  if (type == schema.value->end()) return kAllTypes;
  const std::string pointer = schema.pointer + "/type";
  const auto one = [&](const Json& name) -> uint8_t {
    constexpr std::array<std::pair<std::string_view, uint8_t>, 7> kNames{{{"null", kNull},
                                                                          {"boolean", kBoolean},
                                                                          {"integer", kInteger},
                                                                          {"number", kNumber},
                                                                          {"string", kString},
                                                                          {"array", kArray},
                                                                          {"object", kObject}}};
    for (const auto& [known, types] : kNames)
      if (name.is_string() && name.get_ref<const std::string&>() == known) return types;
    fail_schema(pointer, "expected one of null, boolean, integer, number, string, array, object, found " +
                             (name.is_string() ? "'" + name.get<std::string>() + "'" : kind_of(name)));
  };
  if (!type->is_array()) return one(*type);
  if (type->empty()) fail_schema(pointer, "expected a type, found an empty list");
  uint8_t types = 0;
  for (const Json& name : *type)
    types |= one(name);
  return types;
}

int64_t count_of(const SchemaAt& schema, const std::string& keyword) {
  const auto found = schema.value->find(keyword);
  if (found == schema.value->end()) return -1;
  constexpr double kMost = 1e9;
  const std::string text = is_number(*found) ? number_text(*found) : std::string();
  const bool whole = !text.empty() && types_of_value(*found) == kInteger && !text.starts_with('-');
  if (!whole)
    fail_schema(pointer_to(schema.pointer, keyword),
                "expected an integer of at least 0, found " + printable_text(json_text(*found), 40));
  return static_cast<int64_t>(std::min(is_big_integer(*found) ? kMost : found->get<double>(), kMost));
}

// ---------------------------------------------------------------------------------------------------

struct SchemaDocument::Made {
  std::deque<Json> values;
};

SchemaDocument::SchemaDocument(const Json& root, const Limits& limits)
    : root_(root), limits_(limits), made_(std::make_unique<Made>()) {}
SchemaDocument::~SchemaDocument() = default;

SchemaAt SchemaDocument::root() const {
  return {&root_, "#"};
}

SchemaAt SchemaDocument::target(const SchemaAt& from) const {
  const std::string pointer = from.pointer + "/$ref";
  const Json& ref = (*from.value)["$ref"];
  if (!ref.is_string()) fail_schema(pointer, "expected a string, found " + kind_of(ref));
  const auto& text = ref.get_ref<const std::string&>();
  if (text != "#" && !text.starts_with("#/"))
    fail_schema(pointer,
                "expected a reference within this schema such as '#/$defs/name', found '" + text + "'");
  const Json* value = &root_;
  std::string_view rest = std::string_view(text).substr(1);
  std::string place = "#";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('/', 1), rest.size());
    const std::string key = unescaped(rest.substr(1, end - 1));
    rest.remove_prefix(end);
    value = member(*value, key);
    if (value == nullptr)
      fail_schema(pointer, "expected a reference to an existing part of this schema, found '" + text + "'");
    place = pointer_to(place, key);
  }
  return {value, place};
}

SchemaAt SchemaDocument::resolved(SchemaAt schema) const {
  const std::string first = schema.pointer;
  for (int i = 0; schema.value->is_object() && schema.value->contains("$ref"); ++i) {
    if (i == kMostReferences)
      fail_schema(first + "/$ref", "expected references that end at a schema, found a cycle");
    const auto says_more = [&](const auto& item) {
      return item.key() != "$ref" && !is_annotation(item.key());
    };
    const auto items = schema.value->items();
    if (std::any_of(items.begin(), items.end(), says_more)) return schema;
    schema = target(schema);
  }
  return schema;
}

uint8_t SchemaDocument::types(const SchemaAt& schema) const {
  return types(schema, 0);
}

uint8_t SchemaDocument::types(const SchemaAt& at, int depth) const {
  if (depth > kMostReferences) return kAllTypes;
  const SchemaAt schema = resolved(at);
  const Json& s = *schema.value;
  if (s.is_boolean()) return s.get<bool>() ? kAllTypes : 0;
  if (!s.is_object()) return kAllTypes;
  uint8_t found = types_of_keyword(schema);
  if (lists_values(s)) {
    uint8_t listed = 0;
    for (const Json& value : listed_values(schema))
      listed |= types_of_value(value);
    found &= listed;
  }
  if (s.contains("$ref")) found &= types(target(schema), depth + 1);
  for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
    const auto options = s.find(keyword);
    if (options == s.end() || !options->is_array()) continue;
    const bool all = std::string_view(keyword) == "allOf";
    uint8_t together = all ? kAllTypes : 0;
    for (const Json& option : *options) {
      const uint8_t one = types({&option, schema.pointer}, depth + 1);
      together = static_cast<uint8_t>(all ? together & one : together | one);
    }
    found &= together;
  }
  return found;
}

bool SchemaDocument::disjoint(const SchemaAt& first, const SchemaAt& second) const {
  const SchemaAt a = resolved(first), b = resolved(second);
  const uint8_t both = types(a) & types(b);
  if (both == 0) return true;
  const auto lists_apart = [&](const SchemaAt& x, const SchemaAt& y) {
    if (!lists_values(*x.value) || !lists_values(*y.value)) return false;
    const std::vector<Json> in_x = listed_values(x), in_y = listed_values(y);
    return std::none_of(in_x.begin(), in_x.end(), [&](const Json& value) {
      return std::find(in_y.begin(), in_y.end(), value) != in_y.end();
    });
  };
  if (lists_apart(a, b)) return true;
  // Two object schemas are disjoint if both require the same property and no value satisfies both schemas of
  // the property.
  if (both != kObject || !a.value->contains("properties") || !b.value->contains("properties")) return false;
  const auto needs = [](const SchemaAt& s, const std::string& key) {
    const auto required = s.value->find("required");
    return required != s.value->end() &&
           std::find(required->begin(), required->end(), Json(key)) != required->end();
  };
  const Json &in_a = (*a.value)["properties"], &in_b = (*b.value)["properties"];
  if (!in_a.is_object() || !in_b.is_object()) return false;
  for (const auto& [key, schema] : in_a.items()) {
    if (!in_b.contains(key) || !needs(a, key) || !needs(b, key)) continue;
    const SchemaAt x = resolved({&schema, a.pointer}), y = resolved({&in_b[key], b.pointer});
    if ((types(x) & types(y)) == 0 || lists_apart(x, y)) return true;
  }
  return false;
}

// ---------------------------------------------------------------------------------------------------

// Merges several schemas keyword by keyword.
class SchemaDocument::Merger {
 public:
  Merger(const SchemaDocument& document, std::string pointer)
      : document_(document), pointer_(std::move(pointer)) {}

  void add(SchemaAt schema) {
    schema = document_.resolved(std::move(schema));
    for (int depth = 0; schema.value->is_object() && schema.value->contains("$ref"); ++depth) {
      if (depth == kMostReferences)
        fail_schema(pointer_,
                    "expected references that end at a schema, found a cycle or a chain that is too long");
      add_keywords(schema);
      schema = document_.resolved(document_.target(schema));
    }
    if (schema.value->is_boolean()) {
      never_ |= !schema.value->get<bool>();
    } else if (schema.value->is_object()) {
      add_keywords(schema);
    } else {
      fail_schema(schema.pointer, "expected a schema, found " + kind_of(*schema.value));
    }
  }

  Json result() const { return never_ ? Json(false) : merged_; }

 private:
  [[noreturn]] void refuse(const std::string& keyword) const {
    fail_schema(pointer_, "expected schemas that can be merged, found a conflict in '" + keyword +
                              "'; write a single schema");
  }

  // Throws Error if one schema has `additionalProperties` and the other schema lists properties that the
  // first schema does not list. `additionalProperties` would not apply to these properties in the merged
  // schema.
  void check_properties(const Json& s) const {
    for (const auto& [a, b] : {std::pair(&merged_, &s), std::pair(&s, &merged_)}) {
      if (!a->contains("additionalProperties") || !b->contains("properties")) continue;
      const Json own = a->value("properties", Json::object());
      for (const auto& [key, unused] : (*b)["properties"].items())
        if (!own.contains(key)) refuse("additionalProperties");
    }
  }

  void add_keywords(const SchemaAt& schema) {
    const Json& s = *schema.value;
    for (const char* keyword : {"properties", "required"})
      if (s.contains(keyword) && s[keyword].is_object() != (std::string_view(keyword) == "properties"))
        fail_schema(
            schema.pointer + "/" + keyword,
            "expected an object for properties and a list for required, found " + kind_of(s[keyword]));
    check_properties(s);
    for (const auto& [keyword, value] : s.items()) {
      if (keyword == "allOf") {
        if (!value.is_array())
          fail_schema(schema.pointer + "/allOf", "expected a list, found " + kind_of(value));
        if (++depth_ > kMostReferences) fail_schema(pointer_, "allOf is nested too deeply");
        for (size_t i = 0; i < value.size(); ++i)
          add({&value[i], schema.pointer + "/allOf/" + std::to_string(i)});
        --depth_;
      } else if (keyword != "$ref" && keyword != "$id" && !is_annotation(keyword)) {
        add(keyword, value, schema);
      }
    }
  }

  void add(const std::string& keyword, const Json& value, const SchemaAt& schema) {
    if (!merged_.contains(keyword)) {
      merged_[keyword] = value;
      return;
    }
    Json& known = merged_[keyword];
    if (known == value) return;
    if (keyword == "type") {
      add_type(schema);
    } else if (keyword == "enum") {
      Json both = Json::array();
      for (const Json& one : known)
        if (std::find(value.begin(), value.end(), one) != value.end()) both.push_back(one);
      known = both;
    } else if (keyword == "const") {
      never_ = true;
    } else if (keyword == "required") {
      for (const Json& name : value)
        if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
    } else if (keyword == "properties") {
      for (const auto& [key, one] : value.items())
        known[key] = known.contains(key) ? Json{{"allOf", Json::array({known[key], one})}} : one;
    } else if (keyword == "items" && !merged_.contains("prefixItems") &&
               !schema.value->contains("prefixItems")) {
      known = Json{{"allOf", Json::array({known, value})}};
    } else if (keyword.starts_with("min") || keyword == "exclusiveMinimum") {
      known = larger(keyword, known, value) ? known : value;
    } else if (keyword.starts_with("max") || keyword == "exclusiveMaximum") {
      known = larger(keyword, known, value) ? value : known;
    } else {
      refuse(keyword);
    }
  }

  // Returns true if a > b.
  bool larger(const std::string& keyword, const Json& a, const Json& b) const {
    for (const Json* x : {&a, &b}) {
      const bool infinite = x->is_number_float() && !std::isfinite(x->get<double>());
      if (!is_number(*x) || infinite) refuse(keyword);
    }
    const std::string what = "JSON schema: " + pointer_to(pointer_, keyword);
    return compare(parse_decimal(number_text(a), what), parse_decimal(number_text(b), what)) > 0;
  }

  void add_type(const SchemaAt& schema) {
    const uint8_t types = types_of_keyword({&merged_, pointer_}) & types_of_keyword(schema);
    Json names = Json::array();
    for (const auto& [type, name] :
         {std::pair(kNull, "null"), std::pair(kBoolean, "boolean"), std::pair(kString, "string"),
          std::pair(kArray, "array"), std::pair(kObject, "object")})
      if (types & type) names.push_back(name);
    if (types & kInteger) names.push_back(types & kFraction ? "number" : "integer");
    never_ |= names.empty();
    merged_["type"] = names;
  }

  const SchemaDocument& document_;
  std::string pointer_;
  Json merged_ = Json::object();
  bool never_ = false;
  int depth_ = 0;
};

SchemaAt SchemaDocument::all_of(const std::vector<SchemaAt>& schemas, const std::string& pointer) {
  if (std::ssize(made_->values) >= limits_.max_rules)
    fail_schema(pointer, fmt::format("expected at most {} merged schemas, found more", limits_.max_rules));
  Merger merger(*this, pointer);
  for (const SchemaAt& schema : schemas)
    merger.add(schema);
  made_->values.push_back(merger.result());
  return {&made_->values.back(), pointer};
}

}  // namespace gpt::grammar
