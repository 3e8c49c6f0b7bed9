#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt::grammar {

// The strings that one `format` of JSON Schema allows.
struct Format {
  enum class Kind : uint8_t {
    pattern,   // the strings that the regular expressions match
    any_text,  // an annotation without a constraint: password, binary, path
    unknown,
  };
  struct Part {
    std::string pattern;
    int64_t max_length = -1;  // in characters; -1 means no limit
  };
  // The strings of a format in two groups: strings without an IP address in brackets and strings with such an
  // address. These groups help to limit the length of a string if the automaton of the whole format would be
  // too large.
  struct Hosts {
    std::string without_address, before_address, address, after_address;
    int64_t longest_address;
  };
  Kind kind = Kind::unknown;
  std::vector<Part> parts = {};  // the parts follow one another
  int64_t max_length = -1;       // maximum length of all parts together, -1: no limit
  std::optional<Hosts> hosts = {};
};
Format find_format(std::string_view name);

// Returns the names of all formats that have a pattern, for error messages.
std::string format_names();

// The range of an integer format of OpenAPI, which is int8 to int64 or uint8 to uint64. find_integer_format()
// returns null for other names.
struct IntegerFormat {
  const char *name, *low, *high;
};
const IntegerFormat* find_integer_format(std::string_view name);

}  // namespace gpt::grammar
