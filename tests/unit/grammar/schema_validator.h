#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json_text.h"

namespace gpt::grammar {

// Checks whether a value conforms to a schema, according to JSON Schema 2020-12. The validator is written for
// tests and shares no code with the schema compiler. It ignores patterns and formats.
class SchemaValidator {
 public:
  using Json = nlohmann::ordered_json;
  explicit SchemaValidator(const Json& root) : root_(root) {}

  bool valid(const Json& value) const { return valid(value, root_); }

 private:
  static bool has_type(const Json& v, const std::string& type) {
    if (type == "null") return v.is_null();
    if (type == "boolean") return v.is_boolean();
    if (type == "string") return v.is_string();
    if (type == "array") return v.is_array();
    if (type == "object") return v.is_object();
    if (type == "number") return is_number(v);
    return is_integer(v) || (v.is_number() && std::floor(v.get<double>()) == v.get<double>());
  }

  static size_t characters(const std::string& text) {
    return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
  }

  bool valid(const Json& v, const Json& s) const {
    if (s.is_boolean()) return s.get<bool>();
    for (const auto& [keyword, value] : s.items())
      if (!fulfils(v, s, keyword, value)) return false;
    return true;
  }

  bool fulfils(const Json& v, const Json& s, const std::string& k, const Json& x) const {
    const auto matching = [&] {
      return std::ranges::count_if(x, [&](const Json& o) { return valid(v, o); });
    };
    if (k == "$ref") return valid(v, root_[Json::json_pointer(x.get<std::string>().substr(1))]);
    if (k == "type" && x.is_array())
      return std::ranges::any_of(x, [&](const Json& t) { return has_type(v, t.get<std::string>()); });
    if (k == "type") return has_type(v, x.get<std::string>());
    if (k == "const") return nlohmann::json(v) == nlohmann::json(x);
    if (k == "enum")
      return std::ranges::any_of(x, [&](const Json& o) { return nlohmann::json(v) == nlohmann::json(o); });
    if (k == "anyOf") return matching() > 0;
    if (k == "oneOf") return matching() == 1;
    if (k == "allOf") return matching() == std::ssize(x);
    if (is_number(v)) return number_fulfils(number_text(v), k, x);
    if (v.is_string()) {
      const size_t n = characters(v.get<std::string>());
      return k == "minLength" ? n >= x.get<size_t>() : k == "maxLength" ? n <= x.get<size_t>() : true;
    }
    if (v.is_array()) return array_fulfils(v, s, k, x);
    return !v.is_object() || object_fulfils(v, s, k, x);
  }

  static bool number_fulfils(const std::string& text, const std::string& k, const Json& x) {
    const double v = std::strtod(text.c_str(), nullptr);
    if (k == "minimum") return v >= x.get<double>();
    if (k == "maximum") return v <= x.get<double>();
    if (k == "exclusiveMinimum") return v > x.get<double>();
    if (k == "exclusiveMaximum") return v < x.get<double>();
    return k != "multipleOf" || remainder(text, x.get<int64_t>()) == 0;
  }

  // Returns the remainder of an integer in decimal text.
  static int64_t remainder(const std::string& text, int64_t n) {
    int64_t rest = 0;
    for (const char c : text)
      if (c != '-') rest = (rest * 10 + (c - '0')) % n;
    return rest;
  }

  bool array_fulfils(const Json& v, const Json& s, const std::string& k, const Json& x) const {
    for (size_t i = 0; k == "uniqueItems" && i < v.size(); ++i)
      if (std::find(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(i), v[i]) !=
          v.begin() + static_cast<std::ptrdiff_t>(i))
        return false;
    if (k == "minItems") return v.size() >= x.get<size_t>();
    if (k == "maxItems") return v.size() <= x.get<size_t>();
    const size_t prefix = s.contains("prefixItems") ? s["prefixItems"].size() : 0;
    for (size_t i = 0; i < v.size(); ++i) {
      if (k == "prefixItems" && i < prefix && !valid(v[i], x[i])) return false;
      if (k == "items" && i >= prefix && !valid(v[i], x)) return false;
    }
    return true;
  }

  bool object_fulfils(const Json& v, const Json& s, const std::string& k, const Json& x) const {
    if (k == "required")
      return std::ranges::all_of(x, [&](const Json& key) { return v.contains(key.get<std::string>()); });
    for (const auto& [key, value] : v.items()) {
      const bool listed = s.contains("properties") && s["properties"].contains(key);
      if (k == "properties" && listed && !valid(value, x[key])) return false;
      if (k == "additionalProperties" && !listed && !valid(value, x)) return false;
    }
    return true;
  }

  const Json& root_;
};

}  // namespace gpt::grammar
