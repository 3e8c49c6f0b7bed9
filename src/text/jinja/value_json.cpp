#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "text/jinja/objects.h"
#include "text/jinja/value.h"

namespace gpt::jinja {
namespace {

constexpr int kMostJsonDepth = 60;

template <class Json>
Value json_value(const Json& json, int32_t origin, int level = 0) {
  if (level > kMostJsonDepth) fail("the context is nested deeper than {} levels", kMostJsonDepth);
  const auto text = [&](const std::string& bytes) {
    JinjaText made;
    made.append(bytes, origin);
    return Value(std::move(made));
  };
  if (json.is_null()) return {};
  if (json.is_boolean()) return Value(json.template get<bool>());
  if (gpt::is_integer(json)) return Value::of_digits(number_text(json));
  if (json.is_number_float()) return Value(json.template get<double>());
  if (json.is_string()) return text(json.template get_ref<const std::string&>());
  if (json.is_array()) {
    std::vector<Value> items;
    for (const Json& item : json)
      items.push_back(json_value(item, origin, level + 1));
    return make_list(std::move(items));
  }
  if (json.is_binary())
    return Value(std::shared_ptr<Object>(std::make_shared<Datetime>(PythonDatetime::from_json(json))));
  if (!json.is_object()) fail("the context contains a value that JSON does not support");
  std::vector<std::pair<Value, Value>> items;
  int depth = 0;
  for (const auto& [key, value] : json.items()) {  // the keys of an nlohmann::json object are distinct
    items.emplace_back(text(key), json_value(value, origin, level + 1));
    const Value& made = items.back().second;
    depth = std::max(depth, made.list() != nullptr ? made.list()->depth
                                                   : (made.dict() != nullptr ? made.dict()->depth : 0));
  }
  return Value(std::make_shared<const Dict>(Dict{std::move(items), depth + 1}));
}

template <class Json>
Value message_of(const Json& message, int32_t index) {
  if (!message.is_object()) return json_value(message, index);
  std::vector<std::pair<Value, Value>> items;
  Limits limits;
  for (const auto& [key, value] : message.items()) {
    const bool names = key == "role" || key == "name" || key == "tool_call_id";
    items.emplace_back(Value(std::string_view(key)), json_value(value, names ? JinjaSpan::kContext : index));
  }
  return make_dict(limits, std::move(items));
}

}  // namespace

template <class Json>
std::vector<std::pair<std::string, Value>> context_of(const Json& json) {
  if (!json.is_object()) fail("the context of a template must be a JSON object");
  std::vector<std::pair<std::string, Value>> names;
  for (const auto& [key, value] : json.items()) {
    if (key == "messages" && value.is_array()) {
      std::vector<Value> messages;
      for (size_t i = 0; i < value.size(); ++i)
        messages.push_back(message_of(value[i], static_cast<int32_t>(i)));
      names.emplace_back(key, make_list(std::move(messages)));
    } else {
      const bool token = key.ends_with("_token");
      names.emplace_back(key, json_value(value, token ? JinjaSpan::kTemplate : JinjaSpan::kContext));
    }
  }
  return names;
}

template std::vector<std::pair<std::string, Value>> context_of(const nlohmann::json&);
template std::vector<std::pair<std::string, Value>> context_of(const nlohmann::ordered_json&);

namespace {

void append_json_text(TextBuilder& out, const JinjaText& text, bool ensure_ascii) {
  constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
  out.add("\"");
  for (size_t at = 0; at < text.text.size();) {
    const Utf8Char c = decode_utf8(text.text, at);
    const size_t next = at + static_cast<size_t>(c.length);
    const size_t known = c.code < 128 ? kEscaped.find(static_cast<char>(c.code)) : std::string_view::npos;
    const JinjaSpan& span = text.span_at(at);
    const auto put = [&](const std::string& bytes) { out.add(bytes, span.origin, span.generated); };
    if (known != std::string_view::npos) {
      put({'\\', kLetters[known]});
    } else if (c.code < 0x20 || (ensure_ascii && c.code > 0x7e && c.code < 0x10000)) {
      put(fmt::format("\\u{:04x}", static_cast<uint32_t>(c.code)));
    } else if (ensure_ascii && c.code >= 0x10000) {
      const auto rest = static_cast<uint32_t>(c.code) - 0x10000;
      put(fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff)));
    } else {
      out.add(text, at, next);
    }
    at = next;
  }
  out.add("\"");
}

// Returns a dict key as the key of a JSON object. A number, bool or None is converted as in json.dumps.
JinjaText json_key(Limits& limits, const Value& key) {
  if (key.text() != nullptr) return *key.text();
  TextBuilder out(limits);
  if (!key.is_none() && !key.is_number()) fail("tojson: a {} cannot be a JSON key", type_name(key));
  append_json(out, key, {});
  return out.take();
}

void append_line(TextBuilder& out, const JsonStyle& style, int64_t level) {
  if (style.indent >= 0) out.add("\n" + std::string(static_cast<size_t>(style.indent * level), ' '));
}

void append_json_dict(TextBuilder& out, const Dict& dict, const JsonStyle& style, int64_t level) {
  std::vector<std::pair<JinjaText, const Value*>> items;
  for (const auto& [key, value] : dict.items)
    items.emplace_back(json_key(out.limits(), key), &value);
  if (style.sort_keys) std::ranges::stable_sort(items, {}, [](const auto& item) { return item.first.text; });
  if (items.empty()) {
    out.add("{}");
    return;
  }
  out.add("{");
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(style.item_separator);
    append_line(out, style, level + 1);
    append_json_text(out, items[i].first, style.ensure_ascii);
    out.add(style.key_separator);
    append_json(out, *items[i].second, style, level + 1);
  }
  append_line(out, style, level);
  out.add("}");
}

void append_json_list(TextBuilder& out, const List& list, const JsonStyle& style, int64_t level) {
  if (list.kind > ListKind::tuple)
    fail("tojson: a generator or view is not supported; convert it to a list with |list");
  if (list.items.empty()) {
    out.add("[]");
    return;
  }
  out.add("[");
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.add(style.item_separator);
    append_line(out, style, level + 1);
    append_json(out, list.items[i], style, level + 1);
  }
  append_line(out, style, level);
  out.add("]");
}

}  // namespace

void append_json(TextBuilder& out, const Value& value, const JsonStyle& style, int64_t level) {
  if (value.text() != nullptr) {
    append_json_text(out, *value.text(), style.ensure_ascii);
  } else if (value.is_none()) {
    out.add("null");
  } else if (value.boolean() != nullptr) {
    out.add(*value.boolean() ? "true" : "false");
  } else if (value.integer() != nullptr) {
    out.add(std::to_string(*value.integer()));
  } else if (value.big_integer() != nullptr) {
    out.add(*value.big_integer());
  } else if (value.real() != nullptr) {
    const std::string written = python_float(*value.real());
    out.add(written == "nan" ? "NaN"
                             : (written == "inf" ? "Infinity" : (written == "-inf" ? "-Infinity" : written)));
  } else if (value.list() != nullptr) {
    append_json_list(out, *value.list(), style, level);
  } else if (value.dict() != nullptr) {
    append_json_dict(out, *value.dict(), style, level);
  } else {
    fail("tojson: {}", value.is_undefined() ? value.undefined_what()
                                            : "a " + type_name(value) + " cannot be converted to JSON");
  }
}

}  // namespace gpt::jinja
