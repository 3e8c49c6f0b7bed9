#include "grammar/json_forms.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/utf8.h"
#include "grammar/front_ends.h"

namespace gpt::grammar {
namespace {

// Returns the characters that a JSON string may contain unescaped (RFC 8259).
CodePointSet plain_characters() {
  CodePointSet set(0x20, CodePointSet::kLast);
  CodePointSet out('"', '"');
  out.add('\\', '\\');
  set.remove(out);
  return set;
}

struct Escape {
  char32_t code;
  const char* form;
};
constexpr std::array<Escape, 7> kEscapes{{{'"', "\\\""},
                                          {'\\', "\\\\"},
                                          {'\b', "\\b"},
                                          {'\f', "\\f"},
                                          {'\n', "\\n"},
                                          {'\r', "\\r"},
                                          {'\t', "\\t"}}};

}  // namespace

// Returns a call of a rule. The rule is written the first time it is needed.
Expr JsonForms::once(std::optional<RuleId>& rule, const char* name, Expr (JsonForms::*write)()) {
  if (!rule) {
    rule = rules_.declare(name);
    rules_.define(*rule, (this->*write)());
  }
  return rules_.call(*rule);
}

Expr JsonForms::comma() {
  return rules_.sequence({rules_.text(","), rules_.optional(rules_.text(" "))});
}
Expr JsonForms::colon() {
  return rules_.sequence({rules_.text(":"), rules_.optional(rules_.text(" "))});
}

Expr JsonForms::any_value() {
  return once(value_, "JSON value", &JsonForms::write_value);
}
Expr JsonForms::any_object() {
  return once(object_, "JSON object", &JsonForms::write_object);
}
Expr JsonForms::any_string() {
  return once(string_, "JSON string", &JsonForms::write_string);
}
Expr JsonForms::any_character() {
  return once(character_, "JSON character", &JsonForms::write_character);
}

Expr JsonForms::write_value() {
  const Expr items =
      rules_.sequence({any_value(), rules_.any_number(rules_.sequence({comma(), any_value()}))});
  const Expr array = rules_.sequence({rules_.text("["), rules_.optional(items), rules_.text("]")});
  return rules_.choice({any_object(), array, any_string(), number(), rules_.text("true"),
                        rules_.text("false"), rules_.text("null")});
}

Expr JsonForms::write_object() {
  const Expr member = rules_.sequence({any_string(), colon(), any_value()});
  const Expr members = rules_.sequence({member, rules_.any_number(rules_.sequence({comma(), member}))});
  return rules_.sequence({rules_.text("{"), rules_.optional(members), rules_.text("}")});
}

Expr JsonForms::write_string() {
  return string_of(rules_.any_number(write_character()));
}

// A surrogate pair is one character. A lone surrogate does not match.
Expr JsonForms::write_character() {
  const CharacterForms plain{[&](const CodePointSet& set) { return rules_.code_points(set); }, {}};
  const Expr escape =
      regex_expression(rules_,
                       R"(\\(["\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|)"
                       R"([dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))",
                       plain, PatternRange::whole, "JSON");
  return rules_.choice({rules_.code_points(plain_characters()), escape});
}

Expr JsonForms::character(const CodePointSet& set) {
  CodePointSet plain = set;
  plain.remove(plain_characters().complement());
  std::vector<Expr> forms;
  if (!plain.empty()) forms.push_back(rules_.code_points(plain));
  for (const Escape& escape : kEscapes)
    if (set.contains(escape.code)) forms.push_back(rules_.text(escape.form));
  for (char32_t code = 0; code < 0x20; ++code) {
    const auto known = [&](const Escape& e) { return e.code == code; };
    if (!set.contains(code) || std::ranges::any_of(kEscapes, known)) continue;
    constexpr std::string_view kDigits = "0123456789abcdef";
    forms.push_back(rules_.text(std::string("\\u00") + kDigits[code / 16] + kDigits[code % 16]));
  }
  return rules_.choice(forms);
}

CharacterForms JsonForms::characters() {
  return {[this](const CodePointSet& set) { return character(set); }, [this] { return any_character(); }};
}

Expr JsonForms::key_but(const std::set<std::string>& keys) {
  struct Branch {
    std::map<char32_t, size_t> next;
    bool key = false;
  };
  std::vector<Branch> branches(1);
  for (const std::string& key : keys) {
    size_t at = 0;
    for (size_t i = 0; i < key.size();) {
      const Utf8Char c = decode_utf8(key, i);
      i += static_cast<size_t>(c.length);
      const auto [next, fresh] = branches[at].next.try_emplace(c.code, branches.size());
      const size_t target = next->second;
      if (fresh) branches.emplace_back();
      at = target;
    }
    branches[at].key = true;
  }
  const RuleId rest_rule = rules_.declare("key");
  rules_.define(rest_rule, rules_.any_number(rules_.code_points(plain_characters())));
  const Expr rest = rules_.call(rest_rule);
  std::vector<Expr> forms(branches.size());
  for (size_t i = branches.size(); i-- > 0;) {  // a parent has a smaller index than its children
    std::vector<Expr> options;
    CodePointSet others = plain_characters();
    for (const auto& [code, target] : branches[i].next) {
      const CodePointSet one(code, code);
      others.remove(one);
      if (!plain_characters().contains(code)) continue;
      const RuleId rule = rules_.declare("key");
      rules_.define(rule, forms[target]);
      options.push_back(rules_.sequence({rules_.code_points(one), rules_.call(rule)}));
    }
    options.push_back(rules_.sequence({rules_.code_points(others), rest}));
    if (!branches[i].key) options.push_back(rules_.nothing());
    forms[i] = rules_.choice(options);
  }
  return string_of(forms[0]);
}

Expr JsonForms::integer() {
  const CharacterForms plain{[&](const CodePointSet& set) { return rules_.code_points(set); }, {}};
  return regex_expression(rules_, "-?(0|[1-9][0-9]*)", plain, PatternRange::whole, "JSON");
}

Expr JsonForms::number() {
  return once(number_, "JSON number", &JsonForms::write_number);
}
Expr JsonForms::write_number() {
  const CharacterForms plain{[&](const CodePointSet& set) { return rules_.code_points(set); }, {}};
  return regex_expression(
      rules_,
      R"(-?((0|[1-9][0-9]*)(\.[0-9]+)?|[1-9](\.[0-9]+)?[eE]\+?(29[0-9]|30[0-7])|)"
      R"((0|[1-9][0-9]{0,14})(\.[0-9]+)?[eE](-[0-9]{1,3}|\+?0?([0-9]{1,2}|1[0-9]{2}|2[0-8][0-9]))))",
      plain, PatternRange::whole, "JSON");
}

RuleId json_object_rule(Rules& rules) {
  const RuleId root = rules.declare("json_object");
  rules.define(root, JsonForms(rules).any_object());
  return root;
}

}  // namespace gpt::grammar
