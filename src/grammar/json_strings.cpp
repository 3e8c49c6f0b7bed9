#include "grammar/json_strings.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/utf8.h"
#include "grammar/formats.h"

namespace gpt::grammar {
namespace {

std::string place_of(const SchemaAt& s, const char* keyword) {
  return "JSON schema: " + pointer_to(s.pointer, keyword);
}

std::string text_of(const SchemaAt& s, const char* keyword) {
  const auto& value = (*s.value)[keyword];
  if (!value.is_string())
    fail_schema(pointer_to(s.pointer, keyword), "expected a string, found " + std::string(json_kind(value)));
  return value.get<std::string>();
}

// The values of the string keywords in a schema.
struct StringKeywords {
  int64_t min, max;  // -1 means no limit
  std::optional<std::string> pattern = {};
  std::optional<Format> format = {};

  bool has_lengths() const { return min > 0 || max >= 0; }
  // Returns true if a single regular expression can describe the strings.
  bool is_one_pattern() const {
    const bool counted = format && (format->parts.size() > 1 || format->max_length >= 0);
    return !has_lengths() && pattern.has_value() != format.has_value() && !counted;
  }
};

StringKeywords keywords_of(const SchemaAt& s) {
  StringKeywords found{count_of(s, "minLength"), count_of(s, "maxLength")};
  if (s.value->contains("pattern")) found.pattern = text_of(s, "pattern");
  if (!s.value->contains("format")) return found;
  const std::string name = text_of(s, "format");
  Format format = find_format(name);
  if (format.kind == Format::Kind::unknown)
    fail_schema(pointer_to(s.pointer, "format"),
                "expected one of " + format_names() + ", found '" + printable_text(name, 40) + "'");
  if (format.kind == Format::Kind::pattern) found.format = std::move(format);
  return found;
}

CharacterAutomaton whole_pattern(const std::string& pattern, const Limits& limits, const std::string& what) {
  return pattern_automaton(pattern, PatternRange::whole, limits, what);
}

CharacterAutomaton parts_automaton(const Format& format, const Limits& limits, const std::string& what) {
  std::optional<CharacterAutomaton> all;
  for (const Format::Part& part : format.parts) {
    CharacterAutomaton one = whole_pattern(part.pattern, limits, what);
    if (part.max_length >= 0) one = with_length(one, 0, part.max_length, limits, what);
    all = all ? joined(std::move(*all), one) : std::move(one);
  }
  return *all;
}

// Returns an automaton for the strings of a format with min to max characters. This automaton is smaller than
// an automaton that counts all characters. It counts the part before an IP address as kBefore characters, the
// maximum, and an address as the longest address.
CharacterAutomaton hosts_automaton(const Format::Hosts& hosts, int64_t min, int64_t max, const Limits& limits,
                                   const std::string& what) {
  constexpr int64_t kBefore = 256, kShortest = 6;  // kShortest is the length of "//[::]"
  const CharacterAutomaton names =
      with_length(whole_pattern(hosts.without_address, limits, what), min, max, limits, what);
  const CharacterAutomaton before =
      with_length(whole_pattern(hosts.before_address, limits, what), 0, kBefore, limits, what);
  const CharacterAutomaton after =
      with_length(whole_pattern(hosts.after_address, limits, what), std::max<int64_t>(min - kShortest, 0),
                  max - kBefore - hosts.longest_address, limits, what);
  const CharacterAutomaton addresses =
      joined(joined(before, whole_pattern(hosts.address, limits, what)), after);
  return either(names, addresses, limits, what);
}

CharacterAutomaton format_automaton(const Format& format, int64_t min, int64_t max, const Limits& limits,
                                    const std::string& what) {
  constexpr int64_t kCounted = 60000;  // number of states
  const CharacterAutomaton all = parts_automaton(format, limits, what);
  if (format.max_length >= 0) max = max < 0 ? format.max_length : std::min(max, format.max_length);
  if (format.hosts && std::ssize(all.states) * max > kCounted)
    return hosts_automaton(*format.hosts, min, max, limits, what);
  return min > 0 || max >= 0 ? with_length(all, min, max, limits, what) : all;
}

CharacterAutomaton any_text() {
  return {{{.edges = {{CodePointSet::all(), 0}}, .final = true}}};
}

CharacterAutomaton automaton_of(const StringKeywords& keywords, const SchemaAt& s, const Limits& limits) {
  const std::string what = place_of(s, keywords.format    ? "format"
                                       : keywords.max < 0 ? "minLength"
                                                          : "maxLength");
  const int64_t min = std::max<int64_t>(keywords.min, 0);
  std::optional<CharacterAutomaton> pattern;
  if (keywords.pattern)
    pattern = pattern_automaton(*keywords.pattern, PatternRange::part, limits, place_of(s, "pattern"));
  if (!keywords.format) {
    CharacterAutomaton all = pattern ? std::move(*pattern) : any_text();
    return keywords.has_lengths() ? with_length(all, min, keywords.max, limits, what) : all;
  }
  CharacterAutomaton format = format_automaton(*keywords.format, min, keywords.max, limits, what);
  return pattern ? intersection(*pattern, format, limits, what) : format;
}

// Matches strings of min to max characters of any kind, unescaped or escaped.
Expr of_length(int64_t min, int64_t max, const SchemaAt& s, Rules& rules, JsonForms& json) {
  if (min <= 0 && max < 0) return json.any_string();
  if (max >= 0 && max < min) return rules.never();
  return json.string_of(rules.repeat(json.any_character(), std::max<int64_t>(min, 0), max,
                                     place_of(s, max < 0 ? "minLength" : "maxLength")));
}

}  // namespace

Expr string_expression(const SchemaAt& s, Rules& rules, JsonForms& json) {
  const StringKeywords keywords = keywords_of(s);
  if (!keywords.pattern && !keywords.format) return of_length(keywords.min, keywords.max, s, rules, json);
  if (keywords.is_one_pattern()) {
    const PatternRange range = keywords.pattern ? PatternRange::part : PatternRange::whole;
    const std::string& pattern = keywords.pattern ? *keywords.pattern : keywords.format->parts[0].pattern;
    return json.string_of(regex_expression(rules, pattern, json.characters(), range,
                                           place_of(s, keywords.pattern ? "pattern" : "format")));
  }
  const CharacterAutomaton automaton = automaton_of(keywords, s, rules.limits());
  return json.string_of(automaton_expression(rules, automaton, json.characters()));
}

CharacterAutomaton string_automaton(const SchemaAt& s, const Limits& limits) {
  return automaton_of(keywords_of(s), s, limits);
}

CharacterAutomaton all_but(const std::set<std::string>& texts) {
  CharacterAutomaton out;  // in state 1, the string can no longer be one of `texts`
  out.states = {{.final = true}, {.edges = {{CodePointSet::all(), 1}}, .final = true}};
  for (const std::string& text : texts) {
    size_t state = 0;
    for (size_t i = 0; i < text.size();) {
      const Utf8Char c = decode_utf8(text, i);
      i += static_cast<size_t>(c.length);
      auto& edges = out.states[state].edges;
      const auto known =
          std::ranges::find_if(edges, [&](const auto& e) { return e.characters.contains(c.code); });
      if (known != edges.end()) {
        state = static_cast<size_t>(known->target);
        continue;
      }
      edges.push_back({{c.code, c.code}, static_cast<int32_t>(out.states.size())});
      state = out.states.size();
      out.states.push_back({.final = true});
    }
    out.states[state].final = false;
  }
  for (size_t s = 0; s < out.states.size(); ++s) {
    CodePointSet others = CodePointSet::all();
    for (const auto& edge : out.states[s].edges)
      others.remove(edge.characters);
    if (s != 1 && !others.empty()) out.states[s].edges.push_back({others, 1});
  }
  return out;
}

bool accepts(const CharacterAutomaton& automaton, const std::string& text) {
  size_t state = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    i += static_cast<size_t>(c.length);
    const auto& edges = automaton.states[state].edges;
    const auto next =
        std::ranges::find_if(edges, [&](const auto& e) { return e.characters.contains(c.code); });
    if (next == edges.end()) return false;
    state = static_cast<size_t>(next->target);
  }
  return automaton.states[state].final;
}

}  // namespace gpt::grammar
