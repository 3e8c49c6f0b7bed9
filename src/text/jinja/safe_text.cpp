#include "text/jinja/safe_text.h"

#include <algorithm>
#include <array>

namespace gpt::jinja {
namespace {

// Returns the name of a method's parameter whose value becomes part of the result, or "".
std::string_view inserted_parameter(std::string_view method) {
  if (method == "replace") return "new";
  return method == "ljust" || method == "rjust" || method == "center" ? "fillchar" : "";
}

Value escaped_text(const Value& value) {
  return value.text() != nullptr ? Value(escaped(*value.text())) : value;
}

}  // namespace

bool is_safe(const Value& value) {
  return value.text() != nullptr && value.text()->safe;
}

JinjaText escaped(const JinjaText& text) {
  if (text.safe) return text;
  constexpr std::string_view kChars = "&<>'\"";
  constexpr std::array<std::string_view, 5> kEntities = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  JinjaText out;
  out.safe = true;
  size_t begin = 0;
  for (size_t at = text.text.find_first_of(kChars); at != std::string::npos;
       at = text.text.find_first_of(kChars, begin)) {
    out.append(text, begin, at);
    const JinjaSpan& span = text.span_at(at);
    out.append(kEntities[kChars.find(text.text[at])], span.origin, span.generated);
    begin = at + 1;
  }
  out.append(text, begin, text.text.size());
  return out;
}

Value marked_safe(const Value& value) {
  if (value.text() != nullptr) {
    JinjaText text = *value.text();
    text.safe = true;
    return Value(std::move(text));
  }
  if (value.list() == nullptr) return value;
  std::vector<Value> items;
  for (const Value& item : value.list()->items)
    items.push_back(marked_safe(item));
  return make_list(std::move(items), value.list()->kind);
}

Value safe_sum(Runtime& rt, const JinjaText& left, const JinjaText& right) {
  return marked_safe(TextBuilder(rt.limits).add(escaped(left)).add(escaped(right)).value());
}

Value call_safe_method(Runtime& rt, const Value& self, const Builtin& method, const Arguments& arguments) {
  Arguments given = arguments;
  if (method.name == "join" && !given.positional.empty()) {
    std::vector<Value> items;
    for (const Value& item : iterate(rt, given.positional[0]))
      items.emplace_back(escaped(to_text(rt, item)));
    given.positional[0] = make_list(std::move(items));
  }
  const std::string_view inserted = inserted_parameter(method.name);
  if (!inserted.empty() && given.positional.size() > 1)
    given.positional[1] = escaped_text(given.positional[1]);
  for (auto& [name, value] : given.named) {
    if (name == inserted) value = escaped_text(value);
  }
  return marked_safe(call_builtin(rt, method, self, given));
}

bool filter_keeps_safe(std::string_view filter) {
  constexpr std::array<std::string_view, 8> kFilters = {"upper",  "lower",    "capitalize", "trim",
                                                        "center", "truncate", "indent",     "reverse"};
  return std::ranges::find(kFilters, filter) != kFilters.end();
}

}  // namespace gpt::jinja
