#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gpt {

// Limits of a JSON text. All limits are checked before any memory is allocated.
struct JsonLimits {
  uint64_t max_bytes = uint64_t{32} << 20;
  int max_depth = 64;                             // nesting depth of objects and arrays
  uint64_t max_elements = uint64_t{1} << 20;      // total number of values
  uint64_t max_string_bytes = uint64_t{8} << 20;  // maximum size of a string or a run of white space
};

// Parses strict JSON (RFC 8259: one value, no comments, valid UTF-8, no duplicate keys). Throws Error naming
// `what`, for example a path. The message also contains the line and column, or the duplicate key.
nlohmann::json parse_json(std::string_view text, const std::string& what, const JsonLimits& limits = {});

// Parses a document that is passed on to a template, a prompt or a client. Keeps the order of keys, and all
// digits of integers beyond 64 bits (json_text.h). parse_json does not keep the order, and rounds such
// integers to doubles.
nlohmann::ordered_json parse_json_document(std::string_view text, const std::string& what,
                                           const JsonLimits& limits = {});

// Reads and parses a file like parse_json. Also throws Error if the file cannot be read.
nlohmann::json read_json_file(const std::string& path, const JsonLimits& limits = {});

// Parses an object like parse_json, but passes each member to `f` and keeps none of them. Used for headers
// that are too large to hold as a tree. Does not detect duplicate member names. Each member may have at most
// max_values values.
void visit_members(std::string_view text, const std::string& what, const JsonLimits& limits,
                   size_t max_values,
                   const std::function<void(const std::string& name, nlohmann::json& value)>& f);

// Throws Error about the file `path` if the text starts with a JSON list. Used for JSON Lines files, in which
// each line must be an object.
void refuse_json_list(std::string_view text, const std::string& path);

// Id of the JSON parser's error for a number that exceeds the range of double (nlohmann::json,
// out_of_range.406).
inline constexpr int kNumberOverflow = 406;

// Returns a noun for the kind of a value: "an object", "a string", "a negative number", "a fraction or huge
// number", ...
std::string_view json_kind(const nlohmann::json& value);
std::string_view json_kind(const nlohmann::ordered_json& value);

// Returns true if the value contains a number that json_kind calls "a fractional or very large number".
bool has_fraction(const nlohmann::json& value);

}  // namespace gpt
