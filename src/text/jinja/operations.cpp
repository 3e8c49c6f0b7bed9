#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/objects.h"
#include "text/jinja/python_text.h"
#include "text/jinja/safe_text.h"

namespace gpt::jinja {

bool truthy(Runtime& rt, const Value& value) {
  if (value.is_undefined()) {
    if (value.is_refused(rt.options.strict_undefined)) fail("{}", value.undefined_what());
    return false;
  }
  if (value.is_none()) return false;
  if (value.is_number()) return value.as_double() != 0;
  if (value.text() != nullptr) return !value.text()->text.empty();
  if (const List* list = value.list()) return list->kind == ListKind::generator || !list->items.empty();
  return value.dict() == nullptr || !value.dict()->items.empty();
}

std::vector<Value> iterate(Runtime& rt, const Value& value) {
  std::vector<Value> out;
  if (const List* list = value.list()) {
    rt.limits.step(std::ssize(list->items));
    if (list->kind == ListKind::generator && std::exchange(list->consumed, true)) return out;
    return list->items;
  }
  if (const Dict* dict = value.dict()) {
    rt.limits.step(std::ssize(dict->items));
    for (const auto& item : dict->items)
      out.push_back(item.first);
    return out;
  }
  if (const JinjaText* text = value.text()) {
    const std::vector<size_t> offsets = char_offsets(text->text);
    rt.limits.step(std::ssize(offsets));
    for (size_t i = 0; i + 1 < offsets.size(); ++i)
      out.emplace_back(text->substr(offsets[i], offsets[i + 1]));
    return out;
  }
  if (value.is_undefined() && !value.is_refused(rt.options.strict_undefined)) return out;
  if (value.is_undefined()) fail("{}", value.undefined_what());
  fail("'{}' object is not iterable", type_name(value));
}

JinjaText to_text(Runtime& rt, const Value& value) {
  if (value.text() != nullptr) return *value.text();
  if (value.is_refused(rt.options.strict_undefined)) fail("{}", value.undefined_what());
  TextBuilder out(rt.limits);
  append_str(out, value);
  return out.take();
}

int64_t length_of(Runtime& rt, const Value& value) {
  if (value.text() != nullptr) {
    rt.limits.step(std::ssize(value.text()->text) / 64);
    return count_chars(value.text()->text);
  }
  if (value.dict() != nullptr) return std::ssize(value.dict()->items);
  if (value.list() != nullptr && value.list()->kind != ListKind::generator)
    return std::ssize(value.list()->items);
  if (value.is_undefined() && !value.is_refused(rt.options.strict_undefined)) return 0;
  if (value.is_undefined()) fail("{}", value.undefined_what());
  fail("object of type '{}' has no length", type_name(value));
}

bool contains(Runtime& rt, const Value& container, const Value& item) {
  if (const JinjaText* text = container.text()) {
    rt.limits.step(std::ssize(text->text) / 64);
    return text->text.find(need_text(item, "left operand of in").text) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return find_item(rt.limits, *dict, item) != nullptr;
  const std::vector<Value> items = iterate(rt, container);
  return std::ranges::any_of(items, [&](const Value& x) { return equals(rt.limits, x, item); });
}

namespace {

Value no_attribute(const Value& value, const std::string& name) {
  return Value::undefined(
      fmt::format("'{} object' has no attribute '{}'", type_name(value), printable_text(name, 64)));
}

Value attribute_of(const Macro& macro, const std::string& name) {
  const Stmt& definition = *macro.definition;
  const bool has_name = definition.kind == StmtKind::macro;  // the macro of a call block has no name
  const std::vector<std::string>& parameters = definition.parameters;
  if (name == "name") return has_name ? Value(std::string_view(definition.name)) : Value();
  if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string& parameter : parameters)
      names.emplace_back(std::string_view(parameter));
    return make_list(std::move(names), ListKind::tuple);
  }
  if (name == "catch_kwargs") return Value(definition.special.kwargs);
  if (name == "catch_varargs") return Value(definition.special.varargs);
  if (name == "caller") return Value(definition.special.caller);
  if (name == "explicit_caller") return Value(std::ranges::find(parameters, "caller") != parameters.end());
  return Value::undefined(fmt::format("a macro has no attribute '{}'", printable_text(name, 64)));
}

Value attribute_of(const Object& object, const std::string& name) {
  if (const auto* space = dynamic_cast<const Namespace*>(&object)) {
    for (const auto& [key, value] : space->names) {
      if (key == name) return value;
    }
    return Value::undefined(fmt::format("the namespace has no attribute '{}'", name));
  }
  if (const auto* macro = dynamic_cast<const Macro*>(&object)) return attribute_of(*macro, name);
  const auto* loop = dynamic_cast<const Loop*>(&object);
  if (loop == nullptr)
    return Value::undefined(fmt::format("a {} has no attribute '{}'", object.kind(), name));
  const auto i = static_cast<int64_t>(loop->index), n = std::ssize(loop->items);
  if (name == "index") return Value(i + 1);
  if (name == "index0") return Value(i);
  if (name == "revindex") return Value(n - i);
  if (name == "revindex0") return Value(n - i - 1);
  if (name == "first") return Value(i == 0);
  if (name == "last") return Value(i + 1 == n);
  if (name == "length") return Value(n);
  if (name == "depth") return Value(int64_t{1});  // always 1, because recursive loops are not supported
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem")
    return i > 0 ? loop->items[loop->index - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return i + 1 < n ? loop->items[loop->index + 1] : Value::undefined("there is no next item");
  if (name == "cycle" || name == "changed") fail("loop.{} is only supported as a call", name);
  return Value::undefined(fmt::format("the loop has no attribute '{}'", printable_text(name, 64)));
}

// Returns an item of a groupby result by its name.
const Value* group_item(const Value& value, std::string_view name) {
  if (value.list() == nullptr || !value.list()->group) return nullptr;
  if (name == "grouper") return &value.list()->items[0];
  return name == "list" ? &value.list()->items[1] : nullptr;
}

std::shared_ptr<Object> method(const std::string& name) {
  return std::make_shared<Function>("." + name);
}

// Returns an index as in Python, where a negative index counts from the end. Returns nullopt if the index is
// outside [0, n).
std::optional<size_t> index_in(int64_t index, int64_t n) {
  if (index < 0) index += n;
  return index >= 0 && index < n ? std::optional(static_cast<size_t>(index)) : std::nullopt;
}

}  // namespace

Value get_attribute(Runtime& rt, const Value& value, const std::string& name) {
  if (value.is_undefined()) fail("{}", value.undefined_what());
  if (value.object() != nullptr) return attribute_of(*value.object(), name);
  if (const Value* found = group_item(value, name)) return *found;
  if (has_method(value, name)) return Value(method(name));
  if (const Dict* dict = value.dict()) {
    if (const Value* found = find_item(rt.limits, *dict, name)) return *found;
  }
  return no_attribute(value, name);
}

Value get_item(Runtime& rt, const Value& value, const Value& key) {
  if (value.is_undefined()) fail("{}", value.undefined_what());
  if (value.object() != nullptr) return attribute_of(*value.object(), need_text(key, "attribute name").text);
  if (const Dict* dict = value.dict()) {
    if (const Value* found = find_item(rt.limits, *dict, key)) return *found;
  }
  int64_t room = 0;
  if (const int64_t* index = key.as_integer(room)) {
    if (const List* list = value.list(); list != nullptr && list->kind != ListKind::generator) {
      const auto at = index_in(*index, std::ssize(list->items));
      return at ? list->items[*at]
                : Value::undefined(fmt::format("a {} has no item with index {}", type_name(value), *index));
    }
    if (const JinjaText* text = value.text()) {
      const std::vector<size_t> offsets = char_offsets(text->text);
      rt.limits.step(std::ssize(offsets) / 16);
      const auto at = index_in(*index, std::ssize(offsets) - 1);
      if (!at) return Value::undefined(fmt::format("a str has no character with index {}", *index));
      const Value character(text->substr(offsets[*at], offsets[*at + 1]));
      return text->safe ? marked_safe(character) : character;
    }
  }
  if (key.text() != nullptr) {
    const std::string& name = key.text()->text;
    if (const Value* found = group_item(value, name)) return *found;
    return has_method(value, name) ? Value(method(name)) : no_attribute(value, name);
  }
  return Value::undefined(fmt::format("a {} has no item with this key", type_name(value)));
}

namespace {

struct Range {
  int64_t begin, end, step;
};
// Equivalent to slice.indices(n) in Python.
Range slice_range(const Value& begin, const Value& end, const Value& step, int64_t n) {
  Range range{0, n, step.is_none() ? 1 : need_integer(step, "slice step")};
  if (range.step == 0) fail("the slice step must not be 0");
  const bool back = range.step < 0;
  const auto bound = [&](const Value& value, int64_t other) {
    if (value.is_none()) return other;
    int64_t at = need_integer(value, "slice bound");
    if (at < 0) at = std::max(at + n, back ? int64_t{-1} : int64_t{0});
    return std::min(at, back ? n - 1 : n);
  };
  range.begin = bound(begin, back ? n - 1 : 0);
  range.end = bound(end, back ? -1 : n);
  return range;
}

template <class Take>
void for_slice(Runtime& rt, const Range& range, Take&& take) {
  for (int64_t i = range.begin; range.step < 0 ? i > range.end : i < range.end; i += range.step) {
    rt.limits.step();
    take(static_cast<size_t>(i));
    if (range.step > range.end - i && range.step > 0) break;  // i + range.step could overflow
    if (range.step < range.end - i && range.step < 0) break;
  }
}

}  // namespace

Value get_slice(Runtime& rt, const Value& value, const Value& begin, const Value& end, const Value& step) {
  if (value.is_undefined()) fail("{}", value.undefined_what());
  if (const JinjaText* text = value.text()) {
    const std::vector<size_t> offsets = char_offsets(text->text);
    const Range range = slice_range(begin, end, step, std::ssize(offsets) - 1);
    TextBuilder out(rt.limits);
    if (range.step == 1) {
      if (range.begin < range.end)
        out.add(*text, offsets[static_cast<size_t>(range.begin)], offsets[static_cast<size_t>(range.end)]);
    } else {
      for_slice(rt, range, [&](size_t i) { out.add(*text, offsets[i], offsets[i + 1]); });
    }
    return text->safe ? marked_safe(out.value()) : out.value();
  }
  const List* list = value.list();
  if (list == nullptr || list->kind == ListKind::generator)
    fail("'{}' object does not support slices", type_name(value));
  std::vector<Value> items;
  for_slice(rt, slice_range(begin, end, step, std::ssize(list->items)),
            [&](size_t i) { items.push_back(list->items[i]); });
  return make_list(std::move(items), list->kind);
}

namespace {

[[noreturn]] void too_large() {
  fail("an integer exceeds 64 bits");
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) too_large();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) too_large();
  }
  return result;
}

Value integer_operation(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+" && !__builtin_add_overflow(a, b, &result)) return Value(result);
  if (op == "-" && !__builtin_sub_overflow(a, b, &result)) return Value(result);
  if (op == "*" && !__builtin_mul_overflow(a, b, &result)) return Value(result);
  if (op == "**")
    return b < 0 ? Value(std::pow(static_cast<double>(a), static_cast<double>(b)))
                 : Value(integer_power(a, b));
  if (op == "+" || op == "-" || op == "*") too_large();
  if (b == 0) fail("division by zero");
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) return op == "%" ? Value(int64_t{0}) : integer_operation("-", 0, a);
  const int64_t rest = a % b, down = rest != 0 && (rest < 0) != (b < 0) ? 1 : 0;
  return op == "//" ? Value(a / b - down) : Value(rest + (down != 0 ? b : 0));
}

Value real_operation(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0) fail("division by zero");
  if (op == "/") return Value(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (op == "%") return Value(rest == 0 ? std::copysign(0.0, b) : rest);
  return Value(std::round((a - rest) / b));
}

Value repeated(Runtime& rt, const Value& value, int64_t times) {
  if (const JinjaText* text = value.text()) {
    TextBuilder out(rt.limits);
    for (int64_t i = 0; i < times && !text->text.empty(); ++i)
      out.add(*text);
    return text->safe ? marked_safe(out.value()) : out.value();
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < times && !value.list()->items.empty(); ++i) {
    rt.limits.use(value.list()->items.size() * sizeof(Value));
    items.insert(items.end(), value.list()->items.begin(), value.list()->items.end());
  }
  return make_list(std::move(items), value.list()->kind);
}

bool is_sequence(const Value& value) {
  return value.text() != nullptr || (value.list() != nullptr && value.list()->kind <= ListKind::tuple);
}

}  // namespace

Value binary(Runtime& rt, std::string_view op, const Value& left, const Value& right) {
  rt.limits.step();
  if (left.is_undefined()) fail("{}", left.undefined_what());
  if (op == "%" && left.text() != nullptr) return percent_format(rt, *left.text(), right);
  if (right.is_undefined()) fail("{}", right.undefined_what());
  int64_t x = 0, y = 0;
  const int64_t *a = left.as_integer(x), *b = right.as_integer(y);
  if (a != nullptr && b != nullptr) return integer_operation(op, *a, *b);
  if (left.is_number() && right.is_number()) {
    if (left.big_integer() != nullptr || right.big_integer() != nullptr) too_large();
    return real_operation(op, left.as_double(), right.as_double());
  }
  if (op == "*" && is_sequence(left) && b != nullptr) return repeated(rt, left, *b);
  if (op == "*" && is_sequence(right) && a != nullptr) return repeated(rt, right, *a);
  if (op == "+" && left.text() != nullptr && right.text() != nullptr && (is_safe(left) || is_safe(right)))
    return safe_sum(rt, *left.text(), *right.text());
  if (op == "+" && left.text() != nullptr && right.text() != nullptr)
    return TextBuilder(rt.limits).add(*left.text()).add(*right.text()).value();
  if (op == "+" && is_sequence(left) && left.list() != nullptr && right.list() != nullptr &&
      left.list()->kind == right.list()->kind) {
    std::vector<Value> items = left.list()->items;
    rt.limits.use((items.size() + right.list()->items.size()) * sizeof(Value));
    items.insert(items.end(), right.list()->items.begin(), right.list()->items.end());
    return make_list(std::move(items), left.list()->kind);
  }
  fail("unsupported operand types for {}: '{}' and '{}'", op, type_name(left), type_name(right));
}

Value negative(const Value& value) {
  if (value.is_undefined()) fail("{}", value.undefined_what());
  if (value.real() != nullptr) return Value(-*value.real());
  if (const std::string* digits = value.big_integer())
    return Value::of_digits(digits->starts_with('-') ? digits->substr(1) : "-" + *digits);
  int64_t room = 0;
  if (const int64_t* integer = value.as_integer(room)) return integer_operation("-", 0, *integer);
  fail("bad operand type for unary -: '{}'", type_name(value));
}

const JinjaText& need_text(const Value& value, const char* what) {
  if (value.text() == nullptr) fail("{}: expected a str, found {}", what, type_name(value));
  return *value.text();
}

int64_t need_integer(const Value& value, const char* what) {
  int64_t room = 0;
  const int64_t* integer = value.as_integer(room);
  if (value.big_integer() != nullptr) fail("{}: the number exceeds 64 bits", what);
  if (integer == nullptr) fail("{}: expected an int, found {}", what, type_name(value));
  return *integer;
}

int64_t integer_or(const Value* value, const char* what, int64_t other) {
  return value == nullptr || value->is_none() ? other : need_integer(*value, what);
}

bool flag_or(Runtime& rt, const Value* value, bool other) {
  return value == nullptr ? other : truthy(rt, *value);
}

std::string text_or(const Value* value, const char* what, const char* other) {
  return value == nullptr ? other : need_text(*value, what).text;
}

const Builtin* find_builtin(std::span<const Builtin> all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Builtin::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace gpt::jinja
