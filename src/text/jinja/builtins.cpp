#include "text/jinja/builtins.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "base/error.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "text/jinja/objects.h"
#include "text/jinja/python_text.h"
#include "text/jinja/safe_text.h"

namespace gpt::jinja {

Value call_builtin(Runtime& rt, const Builtin& builtin, const Value& self, const Arguments& arguments) {
  rt.limits.step();
  std::vector<std::string_view> names = split(builtin.parameters, ' ');
  if (builtin.parameters.empty()) names.clear();
  if (arguments.positional.size() > names.size())
    fail("{}: expected at most {} arguments, found {}", builtin.name, names.size(),
         arguments.positional.size());
  Bound bound(std::max<size_t>(names.size(), 1), nullptr);
  for (size_t i = 0; i < arguments.positional.size(); ++i)
    bound[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto at = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
    if (at == names.size()) fail_unsupported("{}: the argument {} is not supported", builtin.name, name);
    if (bound[at] != nullptr) fail("{}: the argument {} is given twice", builtin.name, name);
    bound[at] = &value;
  }
  for (size_t i = 0; i < builtin.required; ++i) {
    if (bound[i] == nullptr) fail("{}: the argument {} is missing", builtin.name, names[i]);
  }
  return builtin.function(rt, self, bound);
}

namespace {

// ---- methods of lists and dicts ----

Value list_index(Runtime& rt, const Value& self, const Bound& a) {
  const std::vector<Value>& items = self.list()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equals(rt.limits, items[i], *a[0])) return Value(static_cast<int64_t>(i));
  }
  fail("index: the item is not in the list");
}
Value list_count(Runtime& rt, const Value& self, const Bound& a) {
  return Value(
      std::ranges::count_if(self.list()->items, [&](const Value& x) { return equals(rt.limits, x, *a[0]); }));
}
Value same(Runtime&, const Value& self, const Bound&) {
  return self;
}
constexpr Builtin kListMethods[] = {
    {"index", "value", 1, list_index}, {"count", "value", 1, list_count}, {"copy", "", 0, same}};

enum class Part : uint8_t { keys, values, items };
template <Part kPart>
Value dict_view(Runtime& rt, const Value& self, const Bound&) {
  const auto& all = self.dict()->items;
  rt.limits.step(std::ssize(all));
  std::vector<Value> out;
  for (const auto& [key, value] : all)
    out.push_back(kPart == Part::items ? make_list({key, value}, ListKind::tuple)
                                       : (kPart == Part::keys ? key : value));
  return make_list(std::move(out), ListKind::view);
}
Value dict_get(Runtime& rt, const Value& self, const Bound& a) {
  const Value* found = find_item(rt.limits, *self.dict(), *a[0]);
  return found != nullptr ? *found : (a[1] == nullptr ? Value() : *a[1]);
}
constexpr Builtin kDictMethods[] = {{"items", "", 0, dict_view<Part::items>},
                                    {"keys", "", 0, dict_view<Part::keys>},
                                    {"values", "", 0, dict_view<Part::values>},
                                    {"get", "key default", 1, dict_get},
                                    {"copy", "", 0, same}};

std::span<const Builtin> methods_of(const Value& value) {
  if (value.text() != nullptr) return text_methods();
  if (value.dict() != nullptr) return kDictMethods;
  if (value.list() != nullptr && value.list()->kind <= ListKind::tuple) return kListMethods;
  return {};
}

constexpr std::array<std::string_view, 12> kChanging = {"append",  "extend",     "insert",  "pop",
                                                        "remove",  "clear",      "sort",    "update",
                                                        "reverse", "setdefault", "popitem", "add"};

}  // namespace

bool has_method(const Value& self, std::string_view name) {
  if (self.text() != nullptr && name == "format") return true;
  return find_builtin(methods_of(self), name) != nullptr;
}

Value call_method(Runtime& rt, const Value& self, std::string_view name, const Arguments& arguments) {
  if (self.text() != nullptr && name == "format") return brace_format(rt, *self.text(), arguments);
  if (const Builtin* method = find_builtin(methods_of(self), name))
    return is_safe(self) ? call_safe_method(rt, self, *method, arguments)
                         : call_builtin(rt, *method, self, arguments);
  if (self.text() == nullptr && std::ranges::find(kChanging, name) != kChanging.end())
    fail(
        "{} modifies a {}, which neither gpt.cpp nor transformers allows in templates; assign a new value "
        "with set",
        name, type_name(self));
  fail_unsupported("the method {} of a {} is not supported", printable_text(name, 64), type_name(self));
}

namespace {

// ---- functions ----

Value range(Runtime& rt, const Value&, const Bound& a) {
  constexpr int64_t kMost = 100'000;  // MAX_RANGE of Jinja's sandbox
  const int64_t first = need_integer(*a[0], "range");
  const int64_t begin = a[1] == nullptr ? 0 : first,
                end = a[1] == nullptr ? first : need_integer(*a[1], "range");
  const int64_t step = integer_or(a[2], "range", 1);
  if (step == 0) fail("range: the step must not be 0");
  const double count = (static_cast<double>(end) - static_cast<double>(begin)) / static_cast<double>(step);
  if (count > static_cast<double>(kMost)) fail("range has more than {} numbers", kMost);
  std::vector<Value> items;
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    rt.limits.step();
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(std::move(items), ListKind::view);
}

// Converts a time in seconds since 1970 to a date and time in UTC. Without a time, returns the current local
// time.
std::tm broken_down(const std::optional<int64_t>& fixed) {
  const std::time_t now = fixed ? static_cast<std::time_t>(*fixed) : std::time(nullptr);
  std::tm out{};
  if (fixed) {
    gmtime_r(&now, &out);
  } else {
    localtime_r(&now, &out);
  }
  return out;
}

Value strftime_now(Runtime& rt, const Value&, const Bound& a) {
  const std::string& format = need_text(*a[0], "strftime_now").text;
  const std::tm now = broken_down(rt.options.now);
  char room[1024];
  constexpr size_t kMostFormat = 256;
  const size_t n = format.size() > kMostFormat ? 0 : std::strftime(room, sizeof room, format.c_str(), &now);
  if (n == 0 && !format.empty()) {
    fail("strftime_now: expected a format of at most {} bytes with a non-empty result, found {} bytes",
         kMostFormat, format.size());
  }
  return Value(std::string_view(room, n));
}

Value raise_exception(Runtime& rt, const Value&, const Bound& a) {
  fail("{}", printable_text(to_text(rt, *a[0]).text, 400));
}

constexpr Builtin kFunctions[] = {{"range", "start stop step", 1, range},
                                  {"strftime_now", "format", 1, strftime_now},
                                  {"raise_exception", "message", 1, raise_exception}};

// Returns the items that dict(...) and namespace(...) create from their arguments: the pairs of a mapping or
// list, and the named arguments.
std::vector<std::pair<Value, Value>> pairs_of(Runtime& rt, const Arguments& arguments) {
  std::vector<std::pair<Value, Value>> items;
  if (arguments.positional.size() > 1) fail("expected at most one mapping and named arguments");
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (from.dict() != nullptr) {
      items = from.dict()->items;
    } else {
      for (const Value& pair : iterate(rt, from)) {
        std::vector<Value> both = iterate(rt, pair);
        if (both.size() != 2) fail("dict: expected pairs of a key and a value");
        items.emplace_back(both[0], both[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named)
    items.emplace_back(Value(std::string_view(name)), value);
  rt.limits.step(std::ssize(items));
  return items;
}

Value make_namespace(Runtime& rt, const Arguments& arguments) {
  auto space = std::make_shared<Namespace>();
  const Value all = make_dict(rt.limits, pairs_of(rt, arguments));
  for (const auto& [key, value] : all.dict()->items)
    space->names.emplace_back(need_text(key, "attribute name of a namespace").text, value);
  return Value(std::shared_ptr<Object>(std::move(space)));
}

}  // namespace

bool is_function(std::string_view name) {
  return name == "dict" || name == "namespace" || find_builtin(kFunctions, name) != nullptr;
}

Value call_function(Runtime& rt, std::string_view name, const Arguments& arguments) {
  if (name == "dict") return make_dict(rt.limits, pairs_of(rt, arguments));
  if (name == "namespace") return make_namespace(rt, arguments);
  const Builtin* function = find_builtin(kFunctions, name);
  if (function == nullptr) fail_unsupported("calling a method through a variable is not supported: {}", name);
  return call_builtin(rt, *function, Value(), arguments);
}

namespace {

// ---- tests ----

template <class F>
constexpr BuiltinFunction as_test(F) {
  return [](Runtime& rt, const Value& self, const Bound& a) { return Value(F{}(rt, self, a)); };
}
bool is_integer(const Value& value) {
  return value.integer() != nullptr || value.big_integer() != nullptr;
}
bool has_rest(Runtime& rt, const Value& value, const Value& divisor, int64_t rest) {
  return equals(rt.limits, binary(rt, "%", value, divisor), Value(rest));
}
// Returns true if the value is the name of a known filter or test.
bool is_name(const Value& value, bool (*is_known)(std::string_view)) {
  require_hashable(value);
  return value.text() != nullptr && is_known(value.text()->text);
}

#define GPT_JINJA_TEST(expression)                                             \
  as_test([]([[maybe_unused]] Runtime& rt, [[maybe_unused]] const Value& self, \
             [[maybe_unused]] const Bound& a) -> bool { return expression; })
constexpr Builtin kTests[] = {
    {"defined", "", 0, GPT_JINJA_TEST(!self.is_undefined())},
    {"undefined", "", 0, GPT_JINJA_TEST(self.is_undefined())},
    {"none", "", 0, GPT_JINJA_TEST(self.is_none())},
    {"boolean", "", 0, GPT_JINJA_TEST(self.boolean() != nullptr)},
    {"true", "", 0, GPT_JINJA_TEST(self.boolean() != nullptr && *self.boolean())},
    {"false", "", 0, GPT_JINJA_TEST(self.boolean() != nullptr && !*self.boolean())},
    {"integer", "", 0, GPT_JINJA_TEST(is_integer(self))},
    {"float", "", 0, GPT_JINJA_TEST(self.real() != nullptr)},
    {"number", "", 0, GPT_JINJA_TEST(self.is_number())},
    {"string", "", 0, GPT_JINJA_TEST(self.text() != nullptr)},
    {"escaped", "", 0, GPT_JINJA_TEST(is_safe(self))},
    {"mapping", "", 0, GPT_JINJA_TEST(self.dict() != nullptr)},
    {"sequence", "", 0,
     GPT_JINJA_TEST(self.text() != nullptr || self.dict() != nullptr || self.is_undefined() ||
                    (self.list() != nullptr && self.list()->kind != ListKind::generator))},
    {"iterable", "", 0,
     GPT_JINJA_TEST(self.text() != nullptr || self.dict() != nullptr || self.list() != nullptr ||
                    self.is_undefined())},
    {"callable", "", 0,
     GPT_JINJA_TEST(self.is_undefined() ||
                    (self.object() != nullptr && dynamic_cast<Namespace*>(self.object()) == nullptr))},
    {"filter", "", 0, GPT_JINJA_TEST(is_name(self, is_filter))},
    {"test", "", 0, GPT_JINJA_TEST(is_name(self, is_test))},
    {"odd", "", 0, GPT_JINJA_TEST(has_rest(rt, self, Value(int64_t{2}), 1))},
    {"even", "", 0, GPT_JINJA_TEST(has_rest(rt, self, Value(int64_t{2}), 0))},
    {"divisibleby", "num", 1, GPT_JINJA_TEST(has_rest(rt, self, *a[0], 0))},
    {"lower", "", 0, GPT_JINJA_TEST(truthy(rt, call_method(rt, Value(to_text(rt, self)), "islower", {})))},
    {"upper", "", 0, GPT_JINJA_TEST(truthy(rt, call_method(rt, Value(to_text(rt, self)), "isupper", {})))},
    {"in", "seq", 1, GPT_JINJA_TEST(contains(rt, *a[0], self))},
    {"sameas", "other", 1,
     GPT_JINJA_TEST(type_name(self) == type_name(*a[0]) && equals(rt.limits, self, *a[0]))},
    {"eq", "other", 1, GPT_JINJA_TEST(equals(rt.limits, self, *a[0]))},
    {"==", "other", 1, GPT_JINJA_TEST(equals(rt.limits, self, *a[0]))},
    {"equalto", "other", 1, GPT_JINJA_TEST(equals(rt.limits, self, *a[0]))},
    {"ne", "other", 1, GPT_JINJA_TEST(!equals(rt.limits, self, *a[0]))},
    {"!=", "other", 1, GPT_JINJA_TEST(!equals(rt.limits, self, *a[0]))},
    {"lt", "other", 1, GPT_JINJA_TEST(compare(rt.limits, self, *a[0]) < 0)},
    {"<", "other", 1, GPT_JINJA_TEST(compare(rt.limits, self, *a[0]) < 0)},
    {"lessthan", "other", 1, GPT_JINJA_TEST(compare(rt.limits, self, *a[0]) < 0)},
    {"le", "other", 1, GPT_JINJA_TEST(compare(rt.limits, self, *a[0]) <= 0)},
    {"<=", "other", 1, GPT_JINJA_TEST(compare(rt.limits, self, *a[0]) <= 0)},
    {"gt", "other", 1, GPT_JINJA_TEST(compare(rt.limits, self, *a[0]) > 0)},
    {">", "other", 1, GPT_JINJA_TEST(compare(rt.limits, self, *a[0]) > 0)},
    {"greaterthan", "other", 1, GPT_JINJA_TEST(compare(rt.limits, self, *a[0]) > 0)},
    {"ge", "other", 1, GPT_JINJA_TEST(compare(rt.limits, self, *a[0]) >= 0)},
    {">=", "other", 1, GPT_JINJA_TEST(compare(rt.limits, self, *a[0]) >= 0)},
};
#undef GPT_JINJA_TEST

}  // namespace

bool is_test(std::string_view name) {
  return find_builtin(kTests, name) != nullptr;
}

bool apply_test(Runtime& rt, std::string_view name, const Value& self, const Arguments& arguments) {
  const Builtin* test = find_builtin(kTests, name);
  if (test == nullptr) fail_unsupported("the test {} is not supported", printable_text(name, 32));
  return *call_builtin(rt, *test, self, arguments).boolean();
}

}  // namespace gpt::jinja
