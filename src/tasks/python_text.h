#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

// What tasks' rules take from Python's str. Texts are UTF-8.
std::string_view strip(std::string_view text);   // str.strip()
std::string_view rstrip(std::string_view text);  // str.rstrip()
bool starts_with_space(std::string_view text);   // text[0].isspace(); false for no text
bool ends_with_space(std::string_view text);
int64_t characters(std::string_view text);  // len(text)
bool is_digits(std::string_view text);      // str.isdigit(), ASCII digits
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
std::string without_any(std::string_view text, std::string_view ascii);  // of these characters
// The parts between white space, as re.split(r"\s+", text) counts them: at least one.
int64_t count_words(std::string_view text);

// What ast.literal_eval makes of a text: strings, numbers, True, False, None, lists, tuples (as lists) and
// dicts with text as keys. Nothing where it would raise, for other literals, and for more than 64 nested.
std::optional<nlohmann::ordered_json> python_literal(std::string_view text);

// What str(value) writes; of lists and dicts JSON.
std::string python_str(const nlohmann::ordered_json& value);

}  // namespace gpt
