#pragma once

#include <string>
#include <string_view>

namespace gpt::detail {

// A Jinja template in a form that styles of writing do not change: outside of tags the text that is written,
// after the rules of blanks that transformers uses (trim_blocks, lstrip_blocks, "-"); inside of tags no
// blanks, one kind of quotes, subscripts instead of attributes. Two templates of one shape write the same;
// nothing is run. Source: Jinja's template documentation, "Whitespace Control".
std::string jinja_shape(std::string_view source);

}  // namespace gpt::detail
