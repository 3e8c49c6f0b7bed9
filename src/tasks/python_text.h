#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

// Functions of Python's str that the rules of tasks use. Texts are UTF-8.
std::string_view strip(std::string_view text);   // str.strip()
std::string_view rstrip(std::string_view text);  // str.rstrip()
bool starts_with_space(std::string_view text);   // text[0].isspace(); false for an empty text
bool ends_with_space(std::string_view text);
int64_t characters(std::string_view text);  // len(text)
bool is_digits(std::string_view text);      // str.isdigit(), for ASCII digits only
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
std::string without_any(std::string_view text, std::string_view ascii);  // removes these characters
// Counts the parts that re.split(r"\s+", text) returns. There is always at least one part.
int64_t count_words(std::string_view text);

// Evaluates a text like ast.literal_eval. Supports strings, numbers, True, False, None, lists, tuples
// (returned as lists) and dicts with string keys. Returns nothing for other literals, for a text that Python
// rejects, and for more than 64 levels of nesting.
std::optional<nlohmann::ordered_json> python_literal(std::string_view text);

// Returns the text of str(value). Lists and dicts are written as JSON instead.
std::string python_str(const nlohmann::ordered_json& value);

}  // namespace gpt
