#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt {

// Formats a double like Python's repr(float): the shortest digits that parse back to the same double, with an
// exponent below 1e-4 and from 1e16 on. Special values are "nan", "inf" and "-inf".
std::string python_float(double value);

// All functions below accept nlohmann::json and nlohmann::ordered_json.

// Create and recognize an integer beyond 64 bits, as returned by parse_json_document. The digits are stored
// as a JSON binary value with a special subtype. Two such integers are equal if their digits are equal.
template <class Json>
Json big_integer(const std::string& digits);
template <class Json>
bool is_big_integer(const Json& value);

// is_integer returns true for integers of any size, but not for 1.0. is_number returns true for all numbers.
template <class Json>
bool is_integer(const Json& value);
template <class Json>
bool is_number(const Json& value);

// Formats a number like Python's json.dumps: 12345678901234567890123, 1e-07, 1e+22, 1.0.
template <class Json>
std::string number_text(const Json& number);

// Returns a value as JSON without spaces, with numbers formatted by number_text. NaN and infinite numbers
// become null. Invalid UTF-8 in strings becomes U+FFFD.
template <class Json>
std::string json_text(const Json& value);

}  // namespace gpt
