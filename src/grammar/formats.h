#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt::grammar {

// The texts of one `format` of JSON Schema.
struct Format {
  enum class Kind : uint8_t {
    pattern,   // exactly the texts of regular expressions
    any_text,  // a note for people: password, binary, path
    unknown,
  };
  struct Part {
    std::string pattern;
    int64_t max_length = -1;  // characters; -1: no limit
  };
  // The same texts in two groups, for automata that count characters and would be too large otherwise: those
  // without an IP address in brackets, and those with one.
  struct Hosts {
    std::string without_address, before_address, address, after_address;
    int64_t longest_address;
  };
  Kind kind = Kind::unknown;
  std::vector<Part> parts = {};  // one after the other
  int64_t max_length = -1;       // of all parts together
  std::optional<Hosts> hosts = {};
};
Format find_format(std::string_view name);

// The names of formats that have a pattern, for messages.
std::string format_names();

// The range of an integer format of OpenAPI: int8 to int64, uint8 to uint64. Null for other names.
struct IntegerFormat {
  const char *name, *low, *high;
};
const IntegerFormat* find_integer_format(std::string_view name);

}  // namespace gpt::grammar
