#include <algorithm>

#include "base/error.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/python_text.h"
#include "text/jinja/safe_text.h"

namespace gpt::jinja {
namespace {

// Returns the value at an attribute path, which is a text like "function.name" or an index. Returns `value`
// itself if `path` is null. `other` replaces undefined values along the path.
Value attribute_path(Runtime& rt, const Value& value, const Value* path, const Value* other = nullptr) {
  if (path == nullptr || path->is_none()) return value;
  const auto step = [&](const Value& from, const Value& key) {
    Value found = get_item(rt, from, key);
    return found.is_undefined() && other != nullptr && !other->is_none() ? *other : found;
  };
  if (path->integer() != nullptr) return step(value, *path);
  Value at = value;
  for (const std::string_view part : split(need_text(*path, "attribute").text, '.')) {
    const auto index = parse_number<int64_t>(part);
    at = step(at, index ? Value(*index) : Value(part));
  }
  return at;
}

// Returns the value that is used for comparisons. Text is converted to lower case unless `case_sensitive` is
// true.
Value folded(const Value& value, bool case_sensitive) {
  return case_sensitive || value.text() == nullptr
             ? value
             : Value(std::string_view(in_case(value.text()->text, LetterCase::lower)));
}

std::vector<Value> keys_of(Runtime& rt, const std::vector<Value>& items, const Value* attribute,
                           bool case_sensitive) {
  std::vector<Value> keys;
  for (const Value& item : items)
    keys.push_back(folded(attribute_path(rt, item, attribute), case_sensitive));
  return keys;
}

// Returns the items sorted by their keys. The sort is stable.
std::vector<Value> sorted(Runtime& rt, const std::vector<Value>& items, const std::vector<Value>& keys,
                          bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    const int sign = compare(rt.limits, keys[a], keys[b]);
    return reverse ? sign > 0 : sign < 0;
  });
  std::vector<Value> out;
  for (const size_t i : order)
    out.push_back(items[i]);
  return out;
}

// Implements the sort filter. An attribute with commas lists several sort keys.
Value sort(Runtime& rt, const Value& self, const Bound& a) {
  const std::vector<Value> items = iterate(rt, self);
  const bool case_sensitive = flag_or(rt, a[1], false);
  std::vector<Value> keys;
  if (a[2] != nullptr && a[2]->text() != nullptr) {
    for (const Value& item : items) {
      std::vector<Value> parts;
      for (const std::string_view path : split(a[2]->text()->text, ',')) {
        const Value attribute(path);
        parts.push_back(folded(attribute_path(rt, item, &attribute), case_sensitive));
      }
      keys.push_back(make_list(std::move(parts)));
    }
  } else {
    keys = keys_of(rt, items, a[2], case_sensitive);
  }
  return make_list(sorted(rt, items, keys, flag_or(rt, a[0], false)));
}

Value dictsort(Runtime& rt, const Value& self, const Bound& a) {
  if (self.dict() == nullptr) fail("dictsort: expected a dict, found {}", type_name(self));
  const std::string by = text_or(a[1], "dictsort", "key");
  if (by != "key" && by != "value")
    fail("dictsort: expected \"key\" or \"value\", found \"{}\"", printable_text(by, 32));
  const Value position(int64_t{by == "key" ? 0 : 1});
  const std::vector<Value> items = iterate(rt, call_method(rt, self, "items", {}));
  return make_list(
      sorted(rt, items, keys_of(rt, items, &position, flag_or(rt, a[0], false)), flag_or(rt, a[2], false)));
}

Value unique(Runtime& rt, const Value& self, const Bound& a) {
  const std::vector<Value> items = iterate(rt, self);
  const std::vector<Value> keys = keys_of(rt, items, a[1], flag_or(rt, a[0], false));
  std::ranges::for_each(keys, require_hashable);
  std::vector<Value> out;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto same = [&](const Value& key) { return equals(rt.limits, key, keys[i]); };
    if (std::none_of(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(i), same))
      out.push_back(items[i]);
  }
  return make_list(std::move(out), ListKind::generator);
}

template <bool kMax>
Value extreme(Runtime& rt, const Value& self, const Bound& a) {
  const std::vector<Value> items = iterate(rt, self);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const std::vector<Value> keys = keys_of(rt, items, a[1], flag_or(rt, a[0], false));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    const int sign = compare(rt.limits, keys[i], keys[best]);
    if (kMax ? sign > 0 : sign < 0) best = i;
  }
  return items[best];
}

Value sum(Runtime& rt, const Value& self, const Bound& a) {
  Value total = a[1] == nullptr ? Value(int64_t{0}) : *a[1];
  if (total.text() != nullptr) fail("sum: strings cannot be summed; use join");
  for (const Value& item : iterate(rt, self))
    total = binary(rt, "+", total, attribute_path(rt, item, a[0]));
  return total;
}

Value join(Runtime& rt, const Value& self, const Bound& a) {
  const JinjaText between = a[0] == nullptr ? JinjaText() : to_text(rt, *a[0]);
  TextBuilder out(rt.limits);
  bool first = true;
  for (const Value& item : iterate(rt, self)) {
    if (!std::exchange(first, false)) out.add(between);
    out.add(to_text(rt, attribute_path(rt, item, a[1])));
  }
  return out.value();
}

Value first(Runtime& rt, const Value& self, const Bound&) {
  const std::vector<Value> items = iterate(rt, self);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}
Value last(Runtime& rt, const Value& self, const Bound&) {
  if (self.list() != nullptr && self.list()->kind == ListKind::generator)
    fail("last: a generator has no last item");
  const std::vector<Value> items = iterate(rt, self);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value length(Runtime& rt, const Value& self, const Bound&) {
  return Value(length_of(rt, self));
}
Value list(Runtime& rt, const Value& self, const Bound&) {
  return make_list(iterate(rt, self));
}

Value reverse(Runtime& rt, const Value& self, const Bound&) {
  std::vector<Value> items = iterate(rt, self);
  std::ranges::reverse(items);
  const bool is_generator = self.list() != nullptr && self.list()->kind == ListKind::generator;
  if (is_generator) return make_list(std::move(items));
  if (self.text() == nullptr) return make_list(std::move(items), ListKind::generator);
  TextBuilder out(rt.limits);
  for (const Value& c : items)
    out.add(*c.text());
  return out.value();
}

Value items(Runtime& rt, const Value& self, const Bound&) {
  if (self.is_undefined()) return make_list({}, ListKind::generator);
  if (self.dict() == nullptr) fail("items: expected a dict, found {}", type_name(self));
  return make_list(iterate(rt, call_method(rt, self, "items", {})), ListKind::generator);
}

Value default_value(Runtime& rt, const Value& self, const Bound& a) {
  const bool use = self.is_undefined() || (flag_or(rt, a[1], false) && !truthy(rt, self));
  return !use ? self : (a[0] == nullptr ? Value("") : *a[0]);
}

Value batch(Runtime& rt, const Value& self, const Bound& a) {
  const int64_t size = need_integer(*a[0], "batch");
  if (size < 1 || size > 100'000) fail("batch: expected 1 to 100000 items per batch, found {}", size);
  std::vector<Value> rows, row;
  for (const Value& item : iterate(rt, self)) {
    row.push_back(item);
    if (std::ssize(row) == size) rows.push_back(make_list(std::exchange(row, {})));
  }
  if (!row.empty()) {
    if (a[1] != nullptr && !a[1]->is_none()) {
      rt.limits.step(size);
      row.resize(static_cast<size_t>(size), *a[1]);
    }
    rows.push_back(make_list(std::move(row)));
  }
  return make_list(std::move(rows), ListKind::generator);
}

Value slice(Runtime& rt, const Value& self, const Bound& a) {
  const std::vector<Value> items = iterate(rt, self);
  const int64_t slices = need_integer(*a[0], "slice"), n = std::ssize(items);
  if (slices < 1 || slices > 100'000) fail("slice: expected 1 to 100000 slices, found {}", slices);
  rt.limits.step(slices);
  std::vector<Value> rows;
  for (int64_t i = 0, at = 0; i < slices; ++i) {
    const int64_t size = n / slices + (i < n % slices ? 1 : 0);
    std::vector<Value> row(items.begin() + at, items.begin() + at + size);
    at += size;
    if (a[1] != nullptr && !a[1]->is_none() && i >= n % slices) row.push_back(*a[1]);
    rows.push_back(make_list(std::move(row)));
  }
  return make_list(std::move(rows), ListKind::generator);
}

Value group_of(const Value& key, std::vector<Value> items) {
  List group = *make_list({key, make_list(std::move(items))}, ListKind::tuple).list();
  group.group = true;
  return Value(std::make_shared<const List>(std::move(group)));
}

// Implements the groupby filter. Returns [(key, items), ...] sorted by key.
Value groupby(Runtime& rt, const Value& self, const Bound& a) {
  const std::vector<Value> items = iterate(rt, self);
  const bool case_sensitive = flag_or(rt, a[2], false);
  std::vector<Value> values;
  for (const Value& item : items)
    values.push_back(attribute_path(rt, item, a[0], a[1]));
  std::vector<Value> pairs;
  for (size_t i = 0; i < items.size(); ++i)
    pairs.push_back(make_list({values[i], items[i]}, ListKind::tuple));
  std::vector<Value> keys;
  for (const Value& value : values)
    keys.push_back(folded(value, case_sensitive));
  std::vector<Value> groups, group;
  Value key;
  const auto close = [&] {
    if (!group.empty()) groups.push_back(group_of(key, std::exchange(group, {})));
  };
  for (const Value& pair : sorted(rt, pairs, keys, false)) {
    const Value& value = pair.list()->items[0];
    if (group.empty() || !equals(rt.limits, folded(value, case_sensitive), folded(key, case_sensitive))) {
      close();
      key = value;
    }
    group.push_back(pair.list()->items[1]);
  }
  close();
  return make_list(std::move(groups));
}

constexpr Builtin kFilters[] = {
    {"default", "default_value boolean", 0, default_value},
    {"d", "default_value boolean", 0, default_value},
    {"length", "", 0, length},
    {"count", "", 0, length},
    {"list", "", 0, list},
    {"first", "", 0, first},
    {"last", "", 0, last},
    {"reverse", "", 0, reverse},
    {"items", "", 0, items},
    {"join", "d attribute", 0, join},
    {"sum", "attribute start", 0, sum},
    {"min", "case_sensitive attribute", 0, extreme<false>},
    {"max", "case_sensitive attribute", 0, extreme<true>},
    {"sort", "reverse case_sensitive attribute", 0, sort},
    {"dictsort", "case_sensitive by reverse", 0, dictsort},
    {"unique", "case_sensitive attribute", 0, unique},
    {"batch", "linecount fill_with", 1, batch},
    {"slice", "slices fill_with", 1, slice},
    {"groupby", "attribute default case_sensitive", 1, groupby},
};

// ---- filters that take the name of another filter or a test, with its arguments ----

Arguments behind(const Arguments& arguments, size_t n) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(n));
  return rest;
}
const std::string& name_at(const Arguments& arguments, size_t at, std::string_view filter) {
  if (arguments.positional.size() <= at) fail("{}: the name of a filter or test is missing", filter);
  return need_text(arguments.positional[at], "the name of a filter or test").text;
}

// Implements the map filter. If there are no items, the arguments are not checked, as in Jinja.
Value map(Runtime& rt, const Value& self, const Arguments& arguments) {
  std::vector<Value> out;
  if (!truthy(rt, self)) return make_list(std::move(out), ListKind::generator);
  if (arguments.positional.empty()) {
    const Value *attribute = nullptr, *other = nullptr;
    for (const auto& [name, value] : arguments.named) {
      if (name != "attribute" && name != "default")
        fail_unsupported("map: the argument {} is not supported", name);
      (name == "attribute" ? attribute : other) = &value;
    }
    if (attribute == nullptr) fail("map: expected a filter name or the argument attribute");
    for (const Value& item : iterate(rt, self))
      out.push_back(attribute_path(rt, item, attribute, other));
  } else {
    const std::string& name = name_at(arguments, 0, "map");
    const Arguments rest = behind(arguments, 1);
    for (const Value& item : iterate(rt, self))
      out.push_back(apply_filter(rt, name, item, rest));
  }
  return make_list(std::move(out), ListKind::generator);
}

// Implements the filters select, reject, selectattr and rejectattr.
Value select(Runtime& rt, std::string_view filter, const Value& self, const Arguments& arguments) {
  if (!truthy(rt, self)) return make_list({}, ListKind::generator);
  const bool by_attribute = filter.ends_with("attr"), wanted = filter.starts_with("select");
  const size_t at = by_attribute ? 1 : 0;
  if (by_attribute) {
    if (arguments.positional.empty()) fail("{}: the argument attribute is missing", filter);
  }
  const Value* attribute = by_attribute ? &arguments.positional[0] : nullptr;
  const bool tests = arguments.positional.size() > at;
  const Arguments rest = tests ? behind(arguments, at + 1) : Arguments{};
  std::vector<Value> out;
  for (const Value& item : iterate(rt, self)) {
    const Value value = attribute_path(rt, item, attribute);
    const bool passes =
        tests ? apply_test(rt, name_at(arguments, at, filter), value, rest) : truthy(rt, value);
    if (passes == wanted) out.push_back(item);
  }
  return make_list(std::move(out), ListKind::generator);
}

bool takes_test(std::string_view name) {
  return name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr";
}

Value format(Runtime& rt, const Value& self, const Arguments& arguments) {
  const JinjaText text = to_text(rt, self);
  if (arguments.named.empty())
    return percent_format(rt, text, make_list(arguments.positional, ListKind::tuple));
  if (!arguments.positional.empty()) fail("format: positional and named arguments cannot be combined");
  std::vector<std::pair<Value, Value>> named;
  for (const auto& [name, value] : arguments.named)
    named.emplace_back(Value(std::string_view(name)), value);
  return percent_format(rt, text, make_dict(rt.limits, std::move(named)));
}

}  // namespace

std::span<const Builtin> list_filters() {
  return kFilters;
}

bool is_filter(std::string_view name) {
  return name == "map" || name == "format" || takes_test(name) ||
         find_builtin(list_filters(), name) != nullptr || find_builtin(text_filters(), name) != nullptr;
}

Value apply_filter(Runtime& rt, std::string_view name, const Value& self, const Arguments& arguments) {
  rt.limits.step();
  if (name == "map") return map(rt, self, arguments);
  if (name == "format") return format(rt, self, arguments);
  if (takes_test(name)) return select(rt, name, self, arguments);
  const Builtin* filter = find_builtin(list_filters(), name);
  if (filter == nullptr) filter = find_builtin(text_filters(), name);
  if (filter == nullptr) fail_unsupported("the filter {} is not supported", printable_text(name, 32));
  Value result = call_builtin(rt, *filter, self, arguments);
  return is_safe(self) && filter_keeps_safe(name) ? marked_safe(result) : result;
}

}  // namespace gpt::jinja
