#include "text/pre_tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/gpt1_tokenizer.h"
#include "text/json_parts.h"
#include "text/split_scan.h"
#include "text/tokenizer_kinds.h"
#include "text/unicode.h"

namespace gpt::detail {
namespace {

using Kind = SplitStep::Kind;
using Behavior = SplitStep::Behavior;

std::string escaped(std::string_view literal) {
  std::string out;
  for (const char c : literal) {
    const bool plain = static_cast<unsigned char>(c) >= 0x80 || (c >= '0' && c <= '9') ||
                       (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ' ' || c == '\n' ||
                       c == '\t' || c == '\r';
    if (!plain) out += '\\';
    out += c;
  }
  return out;
}

// Calls add(begin, end) for each character that matches the step.
template <class Add>
void find_characters(const SplitStep& step, std::string_view text, Add&& add) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    const bool valid = c.status == Utf8Status::valid;
    const size_t end = at + static_cast<size_t>(valid ? c.length : 1);
    const bool match = step.kind == Kind::digits ? is_number(category(c.code)) : is_gpt1_punctuation(c.code);
    if (valid && match) add(at, end);
    at = end;
  }
}

// Converts positions in the byte-level spelling of a text to byte positions in the text.
class AlphabetPlaces {
 public:
  explicit AlphabetPlaces(std::string_view bytes) : characters_(in_alphabet(bytes)) {}
  std::string_view characters() const { return characters_; }
  // Returns the number of characters before a position. In each call, the position must not be smaller than
  // in the previous call.
  size_t byte_at(size_t place) {
    for (; at_ < place; ++count_)
      at_ += static_cast<unsigned char>(characters_[at_]) < 0x80 ? 1 : 2;
    return count_;
  }

 private:
  std::string characters_;
  size_t at_ = 0, count_ = 0;
};

using Json = nlohmann::json;

// names of the values of Behavior, in the same order
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
  // The matches of a known pattern cover the whole text. No text is left between the matches, so isolating
  // the matches and removing the text between them give the same pieces.
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

PreTokenizer::PreTokenizer(std::vector<SplitStep> steps) : steps_(std::move(steps)) {
  if (steps_.size() > 16) fail("the pre_tokenizer has {} split steps; expected at most 16", steps_.size());
  for (const SplitStep& step : steps_) {
    const bool regex = step.kind == Kind::regex;
    regexes_.push_back(regex ? std::make_unique<Regex>(step.literal ? escaped(step.regex) : step.regex)
                             : nullptr);
  }
}

PreTokenizer::Run::Run(const PreTokenizer& pre_tokenizer) : steps_(pre_tokenizer.steps_) {
  for (const auto& regex : pre_tokenizer.regexes_)
    searches_.push_back(regex == nullptr ? nullptr : std::make_unique<Regex::Search>(*regex));
}

void PreTokenizer::Run::cut(size_t index, std::string_view text, std::vector<Piece>& pieces) {
  const SplitStep& step = steps_[index];
  if (step.kind == Kind::pattern) {  // the pattern matches the whole text
    return split_all(step.pattern, text, [&](std::string_view piece) {
      const auto begin = static_cast<size_t>(piece.data() - text.data());
      pieces.push_back({begin, begin + piece.size(), true});
    });
  }
  if (step.in_alphabet) {
    AlphabetPlaces places(text);
    std::vector<Piece> characters;
    cut_plain(step, index, places.characters(), characters);
    for (const Piece& p : characters) {
      const size_t begin = places.byte_at(p.begin);
      pieces.push_back({begin, places.byte_at(p.end), p.match});
    }
    return;
  }
  cut_plain(step, index, text, pieces);
}

void PreTokenizer::Run::cut_plain(const SplitStep& step, size_t index, std::string_view text,
                                  std::vector<Piece>& pieces) {
  std::vector<Piece> found;
  size_t last = 0;
  const auto add = [&](size_t begin, size_t end) {
    if (begin > last) found.push_back({last, begin, step.invert});
    found.push_back({begin, end, !step.invert});
    last = end;
  };
  if (step.kind == Kind::regex) {
    Regex::Search& search = *searches_[index];
    search.begin(text);
    while (const auto match = search.next())
      add(match->first, match->second);
  } else {
    find_characters(step, text, add);
  }
  if (last < text.size()) found.push_back({last, text.size(), step.invert});
  const bool runs = step.kind == Kind::digits && !step.each_digit;
  apply(runs ? Behavior::contiguous : step.behavior, found, pieces);
}

void PreTokenizer::Run::apply(Behavior behavior, const std::vector<Piece>& found,
                              std::vector<Piece>& pieces) {
  for (size_t i = 0; i < found.size(); ++i) {
    const Piece& p = found[i];
    Piece* last = pieces.empty() ? nullptr : &pieces.back();
    const bool previous_match = i > 0 && found[i - 1].match;
    bool joins = false;
    if (behavior == Behavior::removed && p.match) continue;
    if (behavior == Behavior::merged_with_previous) joins = last != nullptr && p.match && !previous_match;
    if (behavior == Behavior::contiguous) joins = last != nullptr && p.match == previous_match;
    // A match is joined with the text after it, unless that text is also a match.
    if (behavior == Behavior::merged_with_next) joins = last != nullptr && !p.match && previous_match;
    if (joins) {
      last->end = p.end;
    } else {
      pieces.push_back(p);
    }
  }
  std::erase_if(pieces, [](const Piece& p) { return p.begin == p.end; });  // left by empty matches
}

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
      if (in_alphabet) fail_kind(name, "a pre_tokenizer with two ByteLevel steps");
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
    // The hand-written patterns of split.h do not support text in the byte-level alphabet.
    if (in_alphabet && steps.back().kind == Kind::pattern) fail_kind(name, "a split pattern after ByteLevel");
    steps.back().in_alphabet = in_alphabet;
  }
  if (!in_alphabet) fail_kind(name, "a pre_tokenizer without ByteLevel");
  if (steps.empty()) fail_kind(name, "a pre_tokenizer that does not split text into pieces");
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
    // If GPT-2's pattern is the last step before the byte-level alphabet, ByteLevel itself applies the
    // pattern.
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
