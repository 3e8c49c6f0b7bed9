#include "text/pre_tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/json_parts.h"
#include "text/tokenizer_kinds.h"
#include "text/utf8.h"

namespace gpt::detail {
namespace {

using Json = nlohmann::json;
using Kind = SplitStep::Kind;
using Behavior = SplitStep::Behavior;

// In the order of Behavior.
constexpr const char* kBehaviors[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                      "Contiguous"};

Behavior read_behavior(const Json& value, const std::string& name) {
  for (size_t i = 0; i < std::size(kBehaviors); ++i) {
    if (value == kBehaviors[i]) return static_cast<Behavior>(i);
  }
  fail_kind(name, "a split with the behavior " + printable_text(value.dump(), 40));
}

SplitStep read_split(const Json& json, const std::string& name) {
  const Json& pattern = member(json, "pattern");
  const Json& regex = pattern.is_object() ? member(pattern, "Regex") : pattern;
  const Json& literal = pattern.is_object() ? member(pattern, "String") : Json();
  if (!regex.is_string() && !literal.is_string()) fail_kind(name, "a Split without a Regex or String");
  SplitStep step{.kind = Kind::regex};
  step.literal = !regex.is_string();
  step.regex = (step.literal ? literal : regex).get<std::string>();
  step.behavior = read_behavior(member(json, "behavior"), name);
  step.invert = !unused(member(json, "invert"));
  // A pattern that covers every text gives the same pieces whether matches are cut out or kept alone.
  const bool keeps_matches =
      step.invert ? step.behavior == Behavior::removed : step.behavior == Behavior::isolated;
  const auto known = step.literal ? std::nullopt : find_split_pattern(step.regex);
  if (known && keeps_matches) return {.pattern = *known};
  return step;
}

SplitStep read_digits(const Json& json) {
  return {.kind = Kind::digits, .each_digit = !unused(member(json, "individual_digits"))};
}

}  // namespace

std::vector<SplitStep> read_split_steps(const Json& pre_tokenizer, const std::string& name) {
  std::vector<Json> list = {pre_tokenizer};
  if (has_type(pre_tokenizer, "Sequence")) {
    const Json& inner = member(pre_tokenizer, "pretokenizers");
    if (!inner.is_array()) fail_kind(name, "a pre_tokenizer Sequence without a list");
    list = inner.get<std::vector<Json>>();
  }
  std::vector<SplitStep> steps;
  bool in_alphabet = false;
  for (const Json& json : list) {
    if (has_type(json, "ByteLevel")) {
      require_unused(json, {"add_prefix_space"}, name);
      const Json& regex = member(json, "use_regex");
      if (in_alphabet) fail_kind(name, "a pre_tokenizer with ByteLevel twice");
      in_alphabet = true;
      if (regex.is_null() || !unused(regex)) steps.push_back({.pattern = SplitPattern::gpt2});
      continue;
    }
    if (has_type(json, "Split")) {
      steps.push_back(read_split(json, name));
    } else if (has_type(json, "Digits")) {
      steps.push_back(read_digits(json));
    } else if (has_type(json, "Punctuation")) {
      const Json& behavior = member(json, "behavior");
      steps.push_back({.kind = Kind::punctuation});
      if (!behavior.is_null()) steps.back().behavior = read_behavior(behavior, name);
    } else {
      const Json& type = json.is_object() ? member(json, "type") : json;
      fail_kind(name, "the pre_tokenizer " + printable_text(type.dump(), 40));
    }
    // A pattern of split.h would have to be one over the alphabet too.
    if (in_alphabet && steps.back().kind == Kind::pattern)
      fail_kind(name, "a split pattern behind ByteLevel");
    steps.back().in_alphabet = in_alphabet;
  }
  if (!in_alphabet) fail_kind(name, "a pre_tokenizer without ByteLevel");
  if (steps.empty()) fail_kind(name, "one that does not split text into pieces");
  return steps;
}

namespace {

Json step_json(const SplitStep& step) {
  const char* behavior = kBehaviors[static_cast<size_t>(step.behavior)];
  if (step.kind == Kind::digits) return {{"type", "Digits"}, {"individual_digits", step.each_digit}};
  if (step.kind == Kind::punctuation) return {{"type", "Punctuation"}, {"behavior", behavior}};
  const std::string regex = step.kind == Kind::pattern ? std::string(split_regex(step.pattern)) : step.regex;
  return {{"type", "Split"},
          {"pattern", {{step.literal ? "String" : "Regex", regex}}},
          {"behavior", behavior},
          {"invert", step.invert}};
}

}  // namespace

Json split_steps_json(const std::vector<SplitStep>& steps) {
  if (steps.size() == 1 && steps[0].kind == Kind::pattern && steps[0].pattern == SplitPattern::gpt2)
    return byte_level_json(true);
  Json list = Json::array();
  bool alphabet = false;
  for (size_t i = 0; i < steps.size(); ++i) {
    // GPT-2's pattern right before the alphabet is ByteLevel's own.
    const bool last = i + 1 == steps.size() || steps[i + 1].in_alphabet;
    const bool own =
        last && !alphabet && steps[i].kind == Kind::pattern && steps[i].pattern == SplitPattern::gpt2;
    if (!own) list.push_back(step_json(steps[i]));
    if (last && !alphabet) list.push_back(byte_level_json(own));
    alphabet |= last;
  }
  return {{"type", "Sequence"}, {"pretokenizers", std::move(list)}};
}

}  // namespace gpt::detail
