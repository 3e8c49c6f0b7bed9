#include "text/json_parts.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

namespace gpt::detail {
namespace {

// A tokenizer.json has a nesting depth of about six. A vocabulary of 256k tokens with its merges has about
// two million values. The limit prevents a malicious file of short values from using sixteen times its size
// in memory.
constexpr JsonLimits kLimits{.max_bytes = UINT64_MAX, .max_depth = 32, .max_elements = 8'000'000};

}  // namespace

using Json = nlohmann::json;

const Json& member(const Json& object, const char* key) {
  static const Json null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

bool unused(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value == 0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || (value.is_array() && value.empty());
}

bool has_type(const Json& value, const char* type) {
  const Json& found = value.is_object() ? member(value, "type") : value;
  return found.is_string() && found.get_ref<const std::string&>() == type;
}

void fail_kind(const std::string& name, const std::string& found) {
  fail_unsupported(
      "cannot read {}: expected a byte, character, byte-level BPE, SentencePiece or GPT-1 tokenizer, found "
      "{}, which is not supported",
      name, found);
}

namespace {

// Returns the type of a step. For a Sequence, the types of its steps are included. Returns "" for a step
// without a type.
std::string types_of(const Json& step) {
  if (!step.is_object()) return "";
  const Json& type = member(step, "type");
  std::string types = type.is_string() ? " " + type.get<std::string>() : "";
  for (const char* key : {"normalizers", "pretokenizers", "decoders"}) {
    for (const Json& inner : member(step, key))
      types += types_of(inner);
  }
  return types;
}

}  // namespace

void require_unused(const Json& object, std::initializer_list<const char*> keys, const std::string& name) {
  for (const char* key : keys) {
    const Json& value = member(object, key);
    if (unused(value)) continue;
    fail_kind(name, fmt::format("the field \"{}\"{}", key, printable_text(types_of(value), 80)));
  }
}

void unwrap_sequence(Json& root, const char* key, const char* list) {
  if (!root.is_object() || !root.contains(key)) return;
  for (Json& step = root[key]; step.is_object() && has_type(step, "Sequence");) {
    const Json& steps = member(step, list);
    if (!steps.is_array() || steps.size() != 1) return;
    Json only = steps[0];
    step = std::move(only);
  }
}

nlohmann::json parse_limited_json(std::string_view text, const std::string& name) {
  return parse_json(text, name, kLimits);
}

}  // namespace gpt::detail
