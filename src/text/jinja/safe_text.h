#pragma once

#include "text/jinja/builtins.h"

namespace gpt::jinja {

// Functions for safe texts, which are the values of markupsafe's Markup. The filters safe and escape return
// safe texts. Source: markupsafe 3.0.

bool is_safe(const Value& value);

// Returns the text with the characters &, <, >, ' and " as HTML entities, marked as safe. A safe text is
// returned unchanged.
JinjaText escaped(const JinjaText& text);

// Returns the value marked as safe. For a list or tuple, the items are marked.
Value marked_safe(const Value& value);

// Returns left + right. At least one of the two texts must be safe.
Value safe_sum(Runtime& rt, const JinjaText& left, const JinjaText& right);

// Calls a method of a safe text. Text arguments that the method inserts are escaped, and the resulting texts
// are marked as safe.
Value call_safe_method(Runtime& rt, const Value& self, const Builtin& method, const Arguments& arguments);

// Returns true if the filter returns a safe text for a safe text.
bool filter_keeps_safe(std::string_view filter);

}  // namespace gpt::jinja
