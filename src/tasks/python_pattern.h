#pragma once

#include <string>
#include <string_view>

namespace gpt {

// Translates a regular expression of Python 3.11's `re` for strings to PCRE2 syntax. Writes out every
// character class, every anchor and all case variants of letters. The result therefore does not depend on
// PCRE2's options or its Unicode rules for letter case. Groups keep their numbers, but lose their names.
// Throws Error naming the byte for patterns that Python rejects, for \N{...}, for backreferences when case is
// ignored, for repetitions above 65535, and for other constructs that PCRE2 matches differently.
std::string pcre2_of_python(std::string_view pattern);

}  // namespace gpt
