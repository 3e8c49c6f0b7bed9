#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

// The JSON of pandas' ujson, with which `datasets` rewrites columns of different kinds. Source:
// pandas/_libs/src/vendored/ujson.

// A finite number as ujson writes it: fractions have at most 10 decimals.
std::string ujson_text(double value);

// The number or constant that ujson reads from a text; nothing where it raises an error or the text is a
// string, list or object. It takes "007", "-", "5." and "1e" for numbers and NaN for null, and its fractions
// may differ from the nearest double.
std::optional<nlohmann::ordered_json> ujson_scalar(std::string_view text);

}  // namespace gpt
