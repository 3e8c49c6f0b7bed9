#include "serve/openai/json_request.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "serve/api_error.h"

namespace gpt::serve {
namespace {

using nlohmann::json;

// Returns a value as text for an error message.
std::string shown(const json& value) {
  if (!value.is_primitive()) return std::string(json_kind(value));
  return printable_text(json_text(value), 40);
}

JsonLimits limits_of(std::string_view body) {
  return {.max_bytes = body.size() + 1,  // the server has already limited the body
          .max_depth = 64,
          .max_string_bytes = body.size() + 1};
}

// Returns the value as int64 if it is a whole number, including 3.0.
std::optional<int64_t> whole_number(const json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) return std::nullopt;
  if (value.is_number_integer()) return value.get<int64_t>();
  const double x = value.is_number_float() ? value.get<double>() : NAN;
  if (!(x >= -0x1p63 && x < 0x1p63) || x != std::floor(x)) return std::nullopt;
  return static_cast<int64_t>(x);
}

}  // namespace

json parse_body(std::string_view body) {
  json parsed;
  try {
    parsed = parse_body_document(body);  // numbers beyond 64 bits are out of range for every field
  } catch (const Error& error) {
    throw ApiError(400, error.what(), {}, "invalid_json");
  }
  if (!parsed.is_object())
    throw ApiError(400, fmt::format("the body: expected a JSON object, found {}", shown(parsed)), {},
                   "invalid_json");
  return parsed;
}

nlohmann::ordered_json parse_body_document(std::string_view body) {
  return parse_json_document(body, "the body", limits_of(body));
}

Fields::Fields(const json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {
  if (!object.is_object())
    fail_field(prefix_.substr(0, prefix_.size() - std::min<size_t>(prefix_.size(), 1)),
               "expected an object, found {}", shown(object));
}

const json* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::fail(const char* name, const std::string& expected, const json& found) const {
  fail_field(prefix_ + name, "expected {}, found {}", expected, shown(found));
}

std::optional<bool> Fields::boolean(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail(name, "true or false", *value);
  return value->get<bool>();
}

std::optional<int64_t> Fields::integer(const char* name, int64_t low, int64_t high) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto found = whole_number(*value);
  if (!found || *found < low || *found > high)
    fail(name, fmt::format("a whole number from {} to {}", low, high), *value);
  return found;
}

std::optional<double> Fields::number(const char* name, double low, double high) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const double x = value->is_number() ? value->get<double>() : NAN;
  if (!(x >= low && x <= high)) fail(name, fmt::format("a number from {} to {}", low, high), *value);
  return x;
}

std::optional<std::string> Fields::text(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail(name, "a string", *value);
  return value->get<std::string>();
}

std::optional<std::string> Fields::choice(const char* name, std::span<const char* const> words) const {
  const auto found = text(name);
  if (!found || std::ranges::find(words, *found) != words.end()) return found;
  const std::vector<std::string> expected =
      transformed(words, [](const char* word) { return fmt::format("\"{}\"", word); });
  fail(name, format_choices(expected), *find(name));
}

void Fields::refuse(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    if (find(name) == nullptr) continue;
    throw ApiError(400, fmt::format("{}{}: this server does not support it; leave it out", prefix_, name),
                   prefix_ + name, "unsupported_parameter");
  }
}

}  // namespace gpt::serve
