#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gpt {

// Letter case as Python's str has it: one character may become several ("ß", "SS"), and a capital sigma at
// the end of a word becomes "ς". Texts are UTF-8; bytes that are none stay.
enum class LetterCase : uint8_t { lower, upper, title, capitalize, swap };

// str.lower, upper, title, capitalize and swapcase.
std::string in_case(std::string_view text, LetterCase to);
// The same piece by piece: calls f with the place of each character and with what replaces it.
void change_case(std::string_view text, LetterCase to,
                 const std::function<void(size_t at, std::string_view changed)>& f);

// str.islower, isupper and istitle of one character.
bool is_lowercase(char32_t code);
bool is_uppercase(char32_t code);
bool is_titlecase(char32_t code);

}  // namespace gpt
