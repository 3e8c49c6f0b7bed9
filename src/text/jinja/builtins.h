#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/jinja.h"
#include "text/jinja/value.h"

namespace gpt::jinja {

// The state of a single rendering of a template.
struct Runtime {
  const JinjaOptions& options;
  Limits limits{};
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Arguments in the order of the parameters of a builtin. An argument is null if it is omitted.
using Bound = std::vector<const Value*>;
using BuiltinFunction = Value (*)(Runtime& rt, const Value& self, const Bound& arguments);
struct Builtin {
  std::string_view name;
  std::string_view parameters;  // parameter names, separated by spaces
  size_t required;              // number of required parameters
  BuiltinFunction function;
};
const Builtin* find_builtin(std::span<const Builtin> all, std::string_view name);
// Calls a builtin. Throws Error with the name of the builtin for unknown or missing arguments.
Value call_builtin(Runtime& rt, const Builtin& builtin, const Value& self, const Arguments& arguments);

// Filters, tests, methods and functions by name. A call throws Error if an argument has the wrong type.
bool is_filter(std::string_view name);
Value apply_filter(Runtime& rt, std::string_view name, const Value& self, const Arguments& arguments);
bool is_test(std::string_view name);
bool apply_test(Runtime& rt, std::string_view name, const Value& self, const Arguments& arguments);
bool has_method(const Value& self, std::string_view name);
Value call_method(Runtime& rt, const Value& self, std::string_view name, const Arguments& arguments);
bool is_function(std::string_view name);
Value call_function(Runtime& rt, std::string_view name, const Arguments& arguments);

std::span<const Builtin> text_filters();
std::span<const Builtin> list_filters();
std::span<const Builtin> text_methods();

// truthy() returns bool(value), iterate() returns the items of a value, and to_text() returns str(value). The
// functions throw Error in cases in which Python raises an exception.
bool truthy(Runtime& rt, const Value& value);
std::vector<Value> iterate(Runtime& rt, const Value& value);
JinjaText to_text(Runtime& rt, const Value& value);
int64_t length_of(Runtime& rt, const Value& value);
bool contains(Runtime& rt, const Value& container, const Value& item);

// Returns value.name or value[key] by Jinja's rules. The result is undefined if the attribute or item does
// not exist.
Value get_attribute(Runtime& rt, const Value& value, const std::string& name);
Value get_item(Runtime& rt, const Value& value, const Value& key);
Value get_slice(Runtime& rt, const Value& value, const Value& begin, const Value& end, const Value& step);

// Implements the operators "+", "-", "*", "/", "//", "%" and "**".
Value binary(Runtime& rt, std::string_view op, const Value& left, const Value& right);
Value negative(const Value& value);

// Implements the expressions text % values and text.format(...).
Value percent_format(Runtime& rt, const JinjaText& text, const Value& values);
Value brace_format(Runtime& rt, const JinjaText& text, const Arguments& arguments);

// Text operations that filters and methods share.
Value split_text(Runtime& rt, const JinjaText& text, const JinjaText* separator, int64_t most);
Value replace_text(Runtime& rt, const JinjaText& text, const JinjaText& from, const JinjaText& to,
                   int64_t most);
JinjaText strip_text(const JinjaText& text, const JinjaText* chars, bool left, bool right);
std::vector<JinjaText> text_lines(const JinjaText& text, bool keep_ends);
JinjaText pad_text(Runtime& rt, const JinjaText& text, int64_t width, std::string_view fill, char align);

// Returns the value as the type that a builtin needs. Throws Error for other types; `what` names the argument
// in the message.
const JinjaText& need_text(const Value& value, const char* what);
int64_t need_integer(const Value& value, const char* what);
// Returns the value of an optional argument. `other` is the default value.
int64_t integer_or(const Value* value, const char* what, int64_t other);
bool flag_or(Runtime& rt, const Value* value, bool other);
std::string text_or(const Value* value, const char* what, const char* other);

}  // namespace gpt::jinja
