#pragma once

#include "text/jinja/builtins.h"

namespace gpt::jinja {

// Safe texts: the values of markupsafe's Markup, which the filters safe and escape return. Source:
// markupsafe 3.0.

bool is_safe(const Value& value);

// The text with the characters &, <, >, ' and " as HTML entities, marked as safe; a safe text stays as it is.
JinjaText escaped(const JinjaText& text);

// The value with the mark of safe texts: a text itself, a list or tuple in its items.
Value marked_safe(const Value& value);

// Left + right where at least one of the two texts is safe.
Value safe_sum(Runtime& rt, const JinjaText& left, const JinjaText& right);

// A method of a safe text: it escapes the texts that the method inserts, and its texts are safe.
Value call_safe_method(Runtime& rt, const Value& self, const Builtin& method, const Arguments& arguments);

// Whether a filter returns a safe text for a safe text.
bool filter_keeps_safe(std::string_view filter);

}  // namespace gpt::jinja
