#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt {

// repr(float) of Python: the shortest digits that read back as the same double, with an exponent below 1e-4
// and from 1e16 on; "nan", "inf" and "-inf".
std::string python_float(double value);

// The functions below take nlohmann::json and nlohmann::ordered_json.

// Integers beyond 64 bits, as parse_json_document keeps them: a binary value of a subtype of its own that
// holds their digits. Two of them are equal if their digits are.
template <class Json>
Json big_integer(const std::string& digits);
template <class Json>
bool is_big_integer(const Json& value);

// Whether the value is an integer of any size (1.0 is none), or any number.
template <class Json>
bool is_integer(const Json& value);
template <class Json>
bool is_number(const Json& value);

// A number as json.dumps of Python writes it: 12345678901234567890123, 1e-07, 1e+22, 1.0.
template <class Json>
std::string number_text(const Json& number);

// The value as JSON without spaces, its numbers as number_text writes them. NaN and infinite numbers become
// null, bytes of strings that are not UTF-8 U+FFFD.
template <class Json>
std::string json_text(const Json& value);

}  // namespace gpt
