#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/json_text.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "text/jinja/objects.h"
#include "text/unicode.h"

namespace gpt::jinja {
namespace {

constexpr int kMostDepth = 64;

int depth_of(const Value& value) {
  const bool has_state = dynamic_cast<const Namespace*>(value.object()) != nullptr ||
                         dynamic_cast<const Loop*>(value.object()) != nullptr;
  if (has_state)
    fail_unsupported("storing a {} in a list, dict or namespace is not supported", value.object()->kind());
  if (const List* list = value.list()) return list->depth;
  return value.dict() != nullptr ? value.dict()->depth : 0;
}

int checked_depth(int inner) {
  if (inner >= kMostDepth) fail("lists and dicts are nested deeper than {} levels", kMostDepth);
  return inner + 1;
}

}  // namespace

Value::Value(std::string_view text) {
  JinjaText made;
  made.append(text);
  data_ = std::make_shared<const JinjaText>(std::move(made));
}

Value Value::undefined(std::string what, bool lenient) {
  Value value;
  value.data_ = std::make_shared<const Undefined>(Undefined{std::move(what), lenient});
  return value;
}

Value Value::of_digits(const std::string& digits) {
  if (const auto integer = parse_number<int64_t>(digits)) return Value(*integer);
  Value value;
  value.data_ = std::make_shared<const BigInteger>(BigInteger{digits});
  return value;
}

const int64_t* Value::as_integer(int64_t& room) const {
  if (boolean() == nullptr) return integer();
  room = *boolean() ? 1 : 0;
  return &room;
}

double Value::as_double() const {
  if (real() != nullptr) return *real();
  if (big_integer() != nullptr) return std::strtod(big_integer()->c_str(), nullptr);
  int64_t room = 0;
  return static_cast<double>(*as_integer(room));
}

void Limits::step(int64_t n) {
  steps -= n;
  if (steps < 0) fail("the template takes more than {} steps", most_steps);
}

void Limits::use(size_t n) {
  step();
  bytes -= static_cast<int64_t>(n);
  if (bytes < 0) fail("the template creates more than {} bytes of text and lists", most_bytes);
}

Value make_list(std::vector<Value> items, ListKind kind) {
  int depth = 0;
  for (const Value& item : items)
    depth = std::max(depth, depth_of(item));
  return Value(std::make_shared<const List>(List{std::move(items), kind, checked_depth(depth)}));
}

void require_hashable(const Value& key) {
  const List* list = key.list();
  if ((list != nullptr && list->kind == ListKind::list) || key.dict() != nullptr)
    fail("a {} cannot be a dict key", type_name(key));
  if (list != nullptr && list->kind == ListKind::tuple) std::ranges::for_each(list->items, require_hashable);
}

Value make_dict(Limits& limits, std::vector<std::pair<Value, Value>>&& items) {
  Dict dict{{}, 0};
  int depth = 0;
  for (auto& [key, value] : items) {
    require_hashable(key);
    depth = std::max({depth, depth_of(value), depth_of(key)});
    if (const Value* found = find_item(limits, dict, key)) {
      *const_cast<Value*>(found) = std::move(value);  // `dict` is a local variable of this function
    } else {
      dict.items.emplace_back(std::move(key), std::move(value));
    }
  }
  dict.depth = checked_depth(depth);
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

const Value* find_item(Limits& limits, const Dict& dict, const Value& key) {
  if (const JinjaText* text = key.text()) return find_item(limits, dict, text->text);
  for (const auto& [name, value] : dict.items) {
    if (equals(limits, name, key)) return &value;
  }
  return nullptr;
}

const Value* find_item(Limits& limits, const Dict& dict, std::string_view key) {
  limits.step(static_cast<int64_t>(dict.items.size() / 8));
  for (const auto& [name, value] : dict.items) {
    if (name.text() != nullptr && name.text()->text == key) return &value;
  }
  return nullptr;
}

std::string type_name(const Value& value) {
  if (value.is_undefined()) return "undefined value";
  if (value.is_none()) return "NoneType";
  if (value.boolean() != nullptr) return "bool";
  if (value.integer() != nullptr || value.big_integer() != nullptr) return "int";
  if (value.real() != nullptr) return "float";
  if (value.text() != nullptr) return "str";
  if (value.dict() != nullptr) return "dict";
  if (value.object() != nullptr) return value.object()->kind();
  constexpr const char* kNames[] = {"list", "tuple", "view", "generator"};
  return kNames[static_cast<size_t>(value.list()->kind)];
}

namespace {

// Returns the digits of the integer part of a number.
std::string whole_digits(const Value& number) {
  if (number.big_integer() != nullptr) return *number.big_integer();
  int64_t room = 0;
  const int64_t* integer = number.as_integer(room);
  return integer != nullptr ? std::to_string(*integer) : fmt::format("{:.0f}", std::trunc(*number.real()));
}

// Compares two numbers of which at least one needs more than 64 bits. A double of that size has no fraction.
// The result of a comparison with NaN is -1, so NaN is not equal to any number.
int compare_big(const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->real() == nullptr || std::isfinite(*value->real())) continue;
    return a.as_double() > b.as_double() ? 1 : -1;
  }
  const std::string x = whole_digits(a), y = whole_digits(b);
  const bool negative = x.starts_with('-');
  if (negative != y.starts_with('-')) return negative ? -1 : 1;
  const int order = x.size() != y.size() ? (x.size() < y.size() ? -1 : 1) : x.compare(y);
  return negative ? -order : order;
}

}  // namespace

bool equals(Limits& limits, const Value& a, const Value& b) {
  limits.step();
  if (a.is_number() && b.is_number()) {
    int64_t x = 0, y = 0;
    const int64_t *left = a.as_integer(x), *right = b.as_integer(y);
    if (left != nullptr && right != nullptr) return *left == *right;
    if (a.big_integer() != nullptr || b.big_integer() != nullptr) return compare_big(a, b) == 0;
    return a.as_double() == b.as_double();
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    limits.step(static_cast<int64_t>(a.text()->text.size() / 64));
    return a.text()->text == b.text()->text;
  }
  if (const List* x = a.list(), *y = b.list(); x != nullptr && y != nullptr) {
    return x == y || (x->kind == y->kind && x->kind != ListKind::generator &&
                      std::ranges::equal(x->items, y->items, [&](const Value& left, const Value& right) {
                        return equals(limits, left, right);
                      }));
  }
  if (const Dict* x = a.dict(), *y = b.dict(); x != nullptr && y != nullptr) {
    return x->items.size() == y->items.size() && std::ranges::all_of(x->items, [&](const auto& item) {
             const Value* other = find_item(limits, *y, item.first);
             return other != nullptr && equals(limits, item.second, *other);
           });
  }
  const auto *x = dynamic_cast<const Datetime*>(a.object()), *y = dynamic_cast<const Datetime*>(b.object());
  if (x != nullptr && y != nullptr) return x->at == y->at;
  if (a.object() != nullptr) return a.object() == b.object();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(Limits& limits, const Value& a, const Value& b) {
  limits.step();
  if (a.is_number() && b.is_number()) {
    int64_t x = 0, y = 0;
    const int64_t *left = a.as_integer(x), *right = b.as_integer(y);
    if (left != nullptr && right != nullptr) return *left < *right ? -1 : (*left > *right ? 1 : 0);
    if (a.big_integer() != nullptr || b.big_integer() != nullptr) return compare_big(a, b);
    return a.as_double() < b.as_double() ? -1 : (a.as_double() > b.as_double() ? 1 : 0);
  }
  if (a.text() != nullptr && b.text() != nullptr) {  // the byte order of UTF-8 is the order of code points
    limits.step(static_cast<int64_t>(a.text()->text.size() / 64));
    return a.text()->text.compare(b.text()->text);
  }
  const auto *earlier = dynamic_cast<const Datetime*>(a.object()),
             *later = dynamic_cast<const Datetime*>(b.object());
  if (earlier != nullptr && later != nullptr) return earlier->at.str().compare(later->at.str());
  const List *x = a.list(), *y = b.list();
  if (x == nullptr || y == nullptr || x->kind != y->kind || x->kind > ListKind::tuple)
    fail("values of the types '{}' and '{}' cannot be ordered", type_name(a), type_name(b));
  for (size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
    if (!equals(limits, x->items[i], y->items[i])) return compare(limits, x->items[i], y->items[i]);
  }
  return x->items.size() < y->items.size() ? -1 : (x->items.size() > y->items.size() ? 1 : 0);
}

namespace {

// Equivalent to str.isprintable for one character.
bool is_printable(char32_t c) {
  const Category kind = category(c);
  return c == ' ' || !(kind == Category::Cn || kind >= Category::Zs);
}

// Equivalent to repr(str). Uses single quotes, unless the text contains single quotes but no double quotes.
// Characters that are not printable are escaped.
void append_quoted(TextBuilder& out, const JinjaText& text) {
  const std::string& bytes = text.text;
  const bool double_quotes = bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos;
  const char quote = double_quotes ? '"' : '\'';
  if (text.safe) out.add("Markup(");
  out.add(std::string_view(&quote, 1));
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, at);
    const JinjaSpan& span = text.span_at(at);
    const auto put = [&](const std::string& written) { out.add(written, span.origin, span.generated); };
    if (c.code == static_cast<char32_t>(quote) || c.code == '\\') {
      put({'\\', static_cast<char>(c.code)});
    } else if (c.code == '\n' || c.code == '\r' || c.code == '\t') {
      put(c.code == '\n' ? "\\n" : (c.code == '\r' ? "\\r" : "\\t"));
    } else if (!is_printable(c.code)) {
      const auto code = static_cast<uint32_t>(c.code);
      put(code < 0x100 ? fmt::format("\\x{:02x}", code)
                       : (code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code)));
    } else {
      out.add(text, at, at + static_cast<size_t>(c.length));
    }
    at += static_cast<size_t>(c.length);
  }
  out.add(std::string_view(&quote, 1));
  if (text.safe) out.add(")");
}

void append_list(TextBuilder& out, const List& list) {
  if (list.kind > ListKind::tuple)
    fail_unsupported("printing a {} is not supported; convert it to a list with |list",
                     list.kind == ListKind::view ? "range or dict view" : "generator");
  const bool tuple = list.kind == ListKind::tuple;
  out.add(tuple ? "(" : "[");
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.add(", ");
    append_repr(out, list.items[i]);
  }
  out.add(tuple ? (list.items.size() == 1 ? ",)" : ")") : "]");
}

void append_object(TextBuilder& out, const Object& object) {
  if (const auto* macro = dynamic_cast<const Macro*>(&object)) {
    const bool has_name = macro->definition->kind == StmtKind::macro;
    return void(
        out.add(has_name ? fmt::format("<Macro '{}'>", macro->definition->name) : "<Macro anonymous>"));
  }
  if (const auto* loop = dynamic_cast<const Loop*>(&object))
    return void(out.add(fmt::format("<LoopContext {}/{}>", loop->index + 1, loop->items.size())));
  fail_unsupported("printing a {} is not supported", object.kind());
}

void append_dict(TextBuilder& out, const Dict& dict) {
  out.add("{");
  for (size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) out.add(", ");
    append_repr(out, dict.items[i].first);
    out.add(": ");
    append_repr(out, dict.items[i].second);
  }
  out.add("}");
}

}  // namespace

void append_repr(TextBuilder& out, const Value& value) {
  if (value.is_undefined()) {
    out.add("Undefined");
  } else if (value.is_none()) {
    out.add("None");
  } else if (value.boolean() != nullptr) {
    out.add(*value.boolean() ? "True" : "False");
  } else if (value.integer() != nullptr) {
    out.add(std::to_string(*value.integer()));
  } else if (value.big_integer() != nullptr) {
    out.add(*value.big_integer());
  } else if (value.real() != nullptr) {
    out.add(python_float(*value.real()));
  } else if (value.text() != nullptr) {
    append_quoted(out, *value.text());
  } else if (value.list() != nullptr) {
    append_list(out, *value.list());
  } else if (value.dict() != nullptr) {
    append_dict(out, *value.dict());
  } else if (const auto* datetime = dynamic_cast<const Datetime*>(value.object())) {
    out.add(datetime->at.repr(), JinjaSpan::kContext);
  } else {
    append_object(out, *value.object());
  }
}

void append_str(TextBuilder& out, const Value& value) {
  if (value.text() != nullptr) {
    out.add(*value.text());
  } else if (const auto* datetime = dynamic_cast<const Datetime*>(value.object())) {
    out.add(datetime->at.str(), JinjaSpan::kContext);
  } else if (!value.is_undefined()) {
    append_repr(out, value);
  }
}

}  // namespace gpt::jinja
