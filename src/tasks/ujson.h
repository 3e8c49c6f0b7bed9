#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

// Reads and writes numbers like pandas' ujson, with which `datasets` rewrites mixed columns. Source:
// pandas/_libs/src/vendored/ujson.

// Writes a finite number like ujson, with at most 10 decimals.
std::string ujson_text(double value);

// Returns the number or constant that ujson reads from a text. Returns nothing if ujson raises an error, or
// if the text is a string, a list or an object. Like ujson, accepts "007", "-", "5." and "1e" as numbers, and
// reads NaN as null. Like ujson, may read a fraction as a double that is not the nearest double.
std::optional<nlohmann::ordered_json> ujson_scalar(std::string_view text);

}  // namespace gpt
