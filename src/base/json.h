#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gpt {

// What a JSON text may ask for. All of it is checked before anything is allocated.
struct JsonLimits {
  uint64_t max_bytes = uint64_t{32} << 20;
  int max_depth = 64;                             // objects and arrays inside each other
  uint64_t max_elements = uint64_t{1} << 20;      // values in all
  uint64_t max_string_bytes = uint64_t{8} << 20;  // of one string as written, or blanks in a row
};

// Parses strict JSON (RFC 8259: one value, no comments, valid UTF-8, no duplicate keys). Throws Error
// naming `what` (a path, say) and the line and column, or the duplicate key.
nlohmann::json parse_json(std::string_view text, const std::string& what, const JsonLimits& limits = {});

// The same for a document that is passed on to a template, a prompt or a client: keys stay in their order,
// integers beyond 64 bits keep their digits (json_text.h), where parse_json rounds them to doubles.
nlohmann::ordered_json parse_json_document(std::string_view text, const std::string& what,
                                           const JsonLimits& limits = {});

// parse_json for a file; also throws Error when it cannot be read.
nlohmann::json read_json_file(const std::string& path, const JsonLimits& limits = {});

// Parses an object as parse_json does, but hands over its members one by one and keeps none: for headers too
// large to hold as a tree. Equal names of members are the caller's business. Each has at most max_values.
void visit_members(std::string_view text, const std::string& what, const JsonLimits& limits,
                   size_t max_values,
                   const std::function<void(const std::string& name, nlohmann::json& value)>& f);

// Throws Error about the file `path` if a text begins with a JSON list, where each line must be an object
// (JSON Lines).
void refuse_json_list(std::string_view text, const std::string& path);

// The parser's id of the error for a number that no double holds (nlohmann::json, out_of_range.406).
inline constexpr int kNumberOverflow = 406;

// A noun for a value: "an object", "a string", "a negative number", "a fraction or huge number", ...
std::string_view json_kind(const nlohmann::json& value);
std::string_view json_kind(const nlohmann::ordered_json& value);

// Whether any number in it is json_kind's "a fraction or huge number".
bool has_fraction(const nlohmann::json& value);

}  // namespace gpt
