#pragma once

#include <cstdint>
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

// The same for a file; also throws Error when it cannot be read.
nlohmann::json read_json_file(const std::string& path, const JsonLimits& limits = {});

// Receives the parts of a JSON text in order. Strings may be moved from. A visitor may throw.
class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  virtual void begin_object() = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
  virtual void key(std::string& name) = 0;
  virtual void string(std::string& value) = 0;
  virtual void number(uint64_t value) = 0;
  virtual void other(std::string_view kind) = 0;  // a noun: "null", "a boolean", "a negative number", ...
};

// Parses as parse_json does but builds nothing: for headers too large to hold as a tree. Duplicate keys
// are the visitor's business.
void visit_json(std::string_view text, const std::string& what, const JsonLimits& limits,
                JsonVisitor& visitor);

}  // namespace gpt
