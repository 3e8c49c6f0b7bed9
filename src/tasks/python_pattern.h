#pragma once

#include <string>
#include <string_view>

namespace gpt {

// Writes a regular expression of Python 3.11's `re`, for texts, in PCRE2's syntax: every character class,
// anchor and letter case is spelt out, so that PCRE2's options and its Unicode rules for letter case do not
// matter. Groups keep their numbers; names are dropped. Throws Error, naming the byte, for what Python
// refuses and for \N{...}, backreferences where letter case is ignored, and repetitions above 65535.
std::string pcre2_of_python(std::string_view pattern);

}  // namespace gpt
