#pragma once

#include <cstddef>
#include <string_view>

namespace gpt {

// Where a text may be cut in two, so that any pattern of split.h gives the same pieces for the whole and for
// the parts: in front of a blank between two letters, or behind a newline between something that is no white
// space and a letter or digit (ASCII, all but what stands before the newline). The last such place in (begin,
// end], or `begin` if there is none. Looks at text[end] too, if that exists; without it `end` is no such
// place.
size_t last_safe_cut(std::string_view text, size_t begin, size_t end);

// The same for any text: the last end of a character in (begin, end] if there is no safe place. Returns `end`
// if the bytes are not UTF-8.
size_t last_cut(std::string_view text, size_t begin, size_t end);

}  // namespace gpt
