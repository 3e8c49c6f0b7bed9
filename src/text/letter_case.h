#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gpt {

// Letter case conversions as in Python's str. One character may become several characters ("ß" becomes "SS").
// A capital sigma at the end of a word becomes "ς". Texts are UTF-8, and invalid bytes are not changed.
enum class LetterCase : uint8_t { lower, upper, title, capitalize, swap };

// Equivalent to str.lower, upper, title, capitalize and swapcase.
std::string in_case(std::string_view text, LetterCase to);
// Converts the letter case character by character. Calls f with the position of each character and the
// replacement.
void change_case(std::string_view text, LetterCase to,
                 const std::function<void(size_t at, std::string_view changed)>& f);

// Equivalent to str.islower, isupper and istitle for one character.
bool is_lowercase(char32_t code);
bool is_uppercase(char32_t code);
bool is_titlecase(char32_t code);

}  // namespace gpt
