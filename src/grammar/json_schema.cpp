#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "grammar/front_ends.h"
#include "grammar/json_forms.h"
#include "grammar/json_numbers.h"
#include "grammar/rules.h"
#include "grammar/schema.h"

namespace gpt::grammar {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kNumberDigits = 15;  // all such decimals are different doubles
constexpr int kIntegerDigits = 18;
constexpr int64_t kMostMultiple = 100;
constexpr int32_t kSmall = 24;  // larger expressions that are used twice become rules

// The types that a keyword speaks of; 0 for those that speak of all or are not known.
uint8_t types_for(const std::string& keyword) {
  static const std::map<std::string, uint8_t> known = {
      {"minLength", kString},        {"maxLength", kString},        {"pattern", kString},
      {"format", kString},           {"minimum", kNumber},          {"maximum", kNumber},
      {"exclusiveMinimum", kNumber}, {"exclusiveMaximum", kNumber}, {"multipleOf", kNumber},
      {"properties", kObject},       {"required", kObject},         {"additionalProperties", kObject},
      {"minProperties", kObject},    {"maxProperties", kObject},    {"items", kArray},
      {"prefixItems", kArray},       {"minItems", kArray},          {"maxItems", kArray},
      {"uniqueItems", kArray},
  };
  const auto found = known.find(keyword);
  return found == known.end() ? uint8_t{0} : found->second;
}

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& schema, Rules& rules)
      : document_(schema, rules.limits()), rules_(rules), json_(rules) {}

  RuleId compile() {
    const RuleId root = rule_of(document_.root());
    while (!open_.empty()) {  // schemas that are referred to, one after the other
      const auto [schema, rule] = open_.back();
      open_.pop_back();
      rules_.define(rule, expression(schema));
    }
    return root;
  }

 private:
  [[noreturn]] void refuse(const SchemaAt& s, const std::string& keyword, const std::string& message) const {
    fail_schema(pointer_to(s.pointer, keyword), message);
  }

  RuleId rule_of(const SchemaAt& schema) {
    const auto [known, fresh] = rule_ids_.try_emplace(schema.pointer, -1);
    if (fresh) {
      known->second = rules_.declare(schema.pointer);
      open_.push_back({schema, known->second});
    }
    return known->second;
  }

  // What is used more than once is written once.
  Expr shared(Expr e, const std::string& name) {
    if (rules_.node(e).size <= kSmall) return e;
    const RuleId rule = rules_.declare(name);
    rules_.define(rule, e);
    return rules_.call(rule);
  }

  SchemaAt part(const SchemaAt& s, const std::string& keyword) const {
    return {&(*s.value)[keyword], pointer_to(s.pointer, keyword)};
  }

  Expr expression(const SchemaAt& s) {
    if (s.value->is_boolean()) return s.value->get<bool>() ? json_.any_value() : rules_.never();
    if (!s.value->is_object()) fail_schema(s.pointer, "expected a schema, found " + kind_of(*s.value));
    if (++depth_ > rules_.limits().max_nesting)
      fail_schema(s.pointer, fmt::format("expected at most {} schemas inside each other, found more",
                                         rules_.limits().max_nesting));
    check_keywords(s);
    const Expr e = of_object(s);
    --depth_;
    return e;
  }

  void check_keywords(const SchemaAt& s) const {
    static const std::set<std::string> general = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"};
    for (const auto& [keyword, value] : s.value->items()) {
      if (types_for(keyword) != 0 || general.contains(keyword) || is_annotation(keyword)) continue;
      if (keyword == "$id" && s.pointer == "#") continue;
      refuse(s, keyword, "this keyword is not supported: leave it out or write the schema without it");
    }
  }

  // The keywords that say something about values.
  std::vector<std::string> sayings(const SchemaAt& s) const {
    std::vector<std::string> found;
    for (const auto& [keyword, value] : s.value->items())
      if (!is_annotation(keyword) && keyword != "$id") found.push_back(keyword);
    return found;
  }

  Expr of_object(const SchemaAt& s) {
    const std::vector<std::string> keywords = sayings(s);
    const auto has = [&](const char* keyword) { return s.value->contains(keyword); };
    if (keywords.empty()) return json_.any_value();
    if (has("$ref") && keywords.size() == 1) return rules_.call(rule_of(document_.resolved(s)));
    if (has("$ref") || has("allOf")) return expression(document_.all_of({s}, s.pointer));
    if (has("anyOf")) return options(s, "anyOf", keywords.size() > 1);
    if (has("oneOf")) return options(s, "oneOf", keywords.size() > 1);
    if (lists_values(*s.value)) return values(s, keywords);
    return of_types(s, keywords);
  }

  Expr options(const SchemaAt& s, const char* keyword, bool says_more) {
    const SchemaAt list = part(s, keyword);
    if (!list.value->is_array() || list.value->empty())
      fail_schema(list.pointer, "expected a list of schemas, found " + kind_of(*list.value));
    std::vector<SchemaAt> all;
    for (size_t i = 0; i < list.value->size(); ++i)
      all.push_back({&(*list.value)[i], fmt::format("{}/{}", list.pointer, i)});
    if (std::string_view(keyword) == "oneOf") check_disjoint(all, list.pointer);
    Json rest = *s.value;
    rest.erase(keyword);
    std::vector<Expr> result;
    for (const SchemaAt& option : all)
      result.push_back(
          expression(says_more ? document_.all_of({{&rest, s.pointer}, option}, option.pointer) : option));
    return rules_.choice(result);
  }

  void check_disjoint(const std::vector<SchemaAt>& all, const std::string& pointer) const {
    constexpr size_t kMost = 256;  // each is compared with each
    if (all.size() > kMost)
      fail_schema(pointer, fmt::format("expected at most {} schemas, found {}", kMost, all.size()));
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        if (document_.disjoint(all[k], all[i])) continue;
        fail_schema(
            pointer,
            fmt::format("expected schemas of which never two fit the same value, found that {} and {} may: "
                        "write anyOf, or give "
                        "them different types, constants or a required property with different constants",
                        k, i));
      }
    }
  }

  // const and enum: the values as they are, those of the schema's type.
  Expr values(const SchemaAt& s, const std::vector<std::string>& keywords) {
    for (const std::string& keyword : keywords)
      if (keyword != "const" && keyword != "enum" && keyword != "type")
        refuse(s, keyword, "is not supported beside const or enum: leave out the values that it excludes");
    const uint8_t types = types_of_keyword(s);
    std::vector<Expr> texts;
    for (const Json& value : listed_values(s)) {
      if ((types_of_value(value) & types) == 0) continue;
      if (value.is_number_float() && !std::isfinite(value.get<double>()))
        fail_schema(s.pointer, "expected finite numbers");
      texts.push_back(rules_.text(value.dump()));
    }
    return rules_.choice(texts);
  }

  Expr of_types(const SchemaAt& s, const std::vector<std::string>& keywords) {
    uint8_t types = types_of_keyword(s);
    if (!s.value->contains("type")) {  // those that its keywords are about
      types = 0;
      for (const std::string& keyword : keywords)
        types |= types_for(keyword);
    }
    std::vector<Expr> result;
    if (types & kNull) result.push_back(rules_.text("null"));
    if (types & kBoolean) result.push_back(rules_.choice({rules_.text("true"), rules_.text("false")}));
    if (types & kNumber) result.push_back(number(s, (types & kFraction) == 0));
    if (types & kString) result.push_back(string(s));
    if (types & kArray) result.push_back(array(s));
    if (types & kObject) result.push_back(object(s));
    return rules_.choice(result);
  }

  // -------------------------------------------------------------------------------------------------

  std::optional<Decimal> bound(const SchemaAt& s, const char* keyword) const {
    const auto found = s.value->find(keyword);
    if (found == s.value->end()) return std::nullopt;
    if (!found->is_number()) refuse(s, keyword, "expected a number, found " + kind_of(*found));
    if (!found->is_number_float())
      return parse_decimal(found->dump(), "JSON schema: " + pointer_to(s.pointer, keyword));
    const auto value = found->get<double>();
    if (!std::isfinite(value)) refuse(s, keyword, "expected a finite number");
    return parse_decimal(fmt::format("{}", value), "JSON schema: " + pointer_to(s.pointer, keyword));
  }

  NumberRange range_of(const SchemaAt& s) const {
    NumberRange range{bound(s, "minimum"), bound(s, "maximum")};
    if (const auto low = bound(s, "exclusiveMinimum");
        low && (!range.low || compare(*low, *range.low) >= 0)) {
      range.low = low;
      range.with_low = false;
    }
    if (const auto high = bound(s, "exclusiveMaximum");
        high && (!range.high || compare(*high, *range.high) <= 0)) {
      range.high = high;
      range.with_high = false;
    }
    return range;
  }

  Expr number(const SchemaAt& s, bool integers) {
    const NumberRange range = range_of(s);
    if (s.value->contains("multipleOf")) return multiples(s, range);
    if (!range.low && !range.high) return integers ? json_.integer() : json_.number();
    return numbers_between(rules_, range, integers ? kIntegerDigits : kNumberDigits, integers);
  }

  Expr multiples(const SchemaAt& s, const NumberRange& range) {
    const Json& value = (*s.value)["multipleOf"];
    if (!value.is_number() || types_of_value(value) != kInteger || value.get<double>() < 1 ||
        value.get<double>() > static_cast<double>(kMostMultiple)) {
      refuse(s, "multipleOf",
             fmt::format("expected an integer from 1 to {}, found {}", kMostMultiple, value.dump()));
    }
    const auto n = value.is_number_float() ? static_cast<int64_t>(value.get<double>()) : value.get<int64_t>();
    if (!range.low && !range.high) return multiples_of(rules_, n, kNumberDigits);
    constexpr size_t kMostListed = 10;  // digits of limits between which multiples are listed
    constexpr int64_t kMost = 1000;
    if (!range.low || !range.high || range.low->whole.size() > kMostListed ||
        range.high->whole.size() > kMostListed)
      refuse(s, "multipleOf",
             "expected both a minimum and a maximum beside it, of at most 10 digits, or neither");
    const auto floor_of = [&](const Decimal& x) {
      return (x.negative ? -1 : 1) * (std::stoll(x.whole) / n) - (x.negative ? 1 : 0);
    };
    std::vector<Expr> texts;
    const int64_t first = floor_of(*range.low), last = floor_of(*range.high) + 1;
    if (last - first > kMost)
      refuse(s, "multipleOf", fmt::format("expected at most {} multiples within the limits", kMost));
    for (int64_t i = first; i <= last; ++i) {
      const std::string text = std::to_string(i * n);
      if (range.contains(parse_decimal(text, "multiple"))) texts.push_back(rules_.text(text));
    }
    return rules_.choice(texts);
  }

  // -------------------------------------------------------------------------------------------------

  // A count; -1 where there is none.
  int64_t count(const SchemaAt& s, const char* keyword) const {
    const auto found = s.value->find(keyword);
    if (found == s.value->end()) return -1;
    const bool whole = found->is_number() && types_of_value(*found) == kInteger && found->get<double>() >= 0;
    if (!whole) refuse(s, keyword, "expected an integer of at least 0, found " + found->dump());
    constexpr double kMost = 1e9;
    return static_cast<int64_t>(std::min(found->get<double>(), kMost));
  }

  std::string text_of(const SchemaAt& s, const char* keyword) const {
    const Json& value = (*s.value)[keyword];
    if (!value.is_string()) refuse(s, keyword, "expected a string, found " + kind_of(value));
    return value.get<std::string>();
  }

  Expr string(const SchemaAt& s) {
    const int64_t min = count(s, "minLength"), max = count(s, "maxLength");
    const bool pattern = s.value->contains("pattern"), format = s.value->contains("format");
    const char* const shape = pattern ? "pattern" : "format";
    if ((pattern && format) || ((pattern || format) && (min > 0 || max >= 0)))
      refuse(s, shape,
             "is not supported beside another one of pattern, format, minLength and maxLength: write one "
             "pattern");
    const std::string pointer = "JSON schema: " + pointer_to(s.pointer, shape);
    if (pattern)
      return json_.string_of(
          regex_expression(rules_, text_of(s, shape), json_.characters(), PatternRange::part, pointer));
    if (format) {
      const auto known = format_pattern(text_of(s, shape));
      if (!known)
        refuse(s, "format",
               "expected date-time, date, time, duration, email, hostname, ipv4, ipv6, uri or uuid, found '" +
                   text_of(s, shape) + "'");
      return json_.string_of(
          regex_expression(rules_, *known, json_.characters(), PatternRange::whole, pointer));
    }
    if (min <= 0 && max < 0) return json_.any_string();
    if (max >= 0 && max < min) return rules_.never();
    return json_.string_of(
        rules_.repeat(json_.any_character(), std::max<int64_t>(min, 0), max,
                      "JSON schema: " + pointer_to(s.pointer, max < 0 ? "minLength" : "maxLength")));
  }

  // -------------------------------------------------------------------------------------------------

  Expr array(const SchemaAt& s) {
    const int64_t min = std::max<int64_t>(count(s, "minItems"), 0), max = count(s, "maxItems");
    if (s.value->value("uniqueItems", Json(false)) != Json(false) && (max < 0 || max > 1))
      refuse(s, "uniqueItems", "is not supported: leave it out");
    std::vector<Expr> first;
    if (s.value->contains("prefixItems")) {
      const SchemaAt list = part(s, "prefixItems");
      if (!list.value->is_array())
        fail_schema(list.pointer, "expected a list of schemas, found " + kind_of(*list.value));
      for (size_t i = 0; i < list.value->size(); ++i)
        first.push_back(expression({&(*list.value)[i], fmt::format("{}/{}", list.pointer, i)}));
    }
    Expr rest = json_.any_value();
    if (s.value->contains("items")) {
      if ((*s.value)["items"].is_array())
        refuse(s, "items", "expected one schema, found a list: write prefixItems");
      rest = shared(expression(part(s, "items")), pointer_to(s.pointer, "items"));
    }
    const Expr some = items(first, rest, min, max,
                            "JSON schema: " + pointer_to(s.pointer, max < 0 ? "minItems" : "maxItems"));
    const Expr none = min == 0 ? rules_.nothing() : rules_.never();
    return rules_.sequence(
        {rules_.text("["), max == 0 ? none : rules_.choice({some, none}), rules_.text("]")});
  }

  // At least one item.
  Expr items(const std::vector<Expr>& first, Expr rest, int64_t min, int64_t max, const std::string& what) {
    if (max >= 0 && max < min) return rules_.never();
    const Expr more = rules_.sequence({json_.comma(), rest});
    const auto fixed = std::max<int64_t>(std::ssize(first), 1);
    Expr tail = max >= 0 && max <= fixed ? rules_.nothing()
                                         : rules_.repeat(more, std::max<int64_t>(min - fixed, 0),
                                                         max < 0 ? -1 : max - fixed, what);
    for (int64_t i = std::ssize(first) - 1; i >= 1; --i) {
      if (max >= 0 && i >= max) continue;
      const Expr here = rules_.sequence({json_.comma(), first[static_cast<size_t>(i)], tail});
      tail = i < min ? here : rules_.optional(here);
    }
    return rules_.sequence({first.empty() ? rest : first[0], tail});
  }

  // -------------------------------------------------------------------------------------------------

  struct Property {
    Expr member;  // key and value
    bool required;
  };

  std::set<std::string> required_of(const SchemaAt& s) const {
    std::set<std::string> names;
    const auto found = s.value->find("required");
    if (found == s.value->end()) return names;
    if (!found->is_array()) refuse(s, "required", "expected a list of names, found " + kind_of(*found));
    for (const Json& name : *found) {
      if (!name.is_string()) refuse(s, "required", "expected names, found " + kind_of(name));
      names.insert(name.get<std::string>());
    }
    return names;
  }

  Expr member_of(const std::string& key, Expr value) {
    return rules_.sequence({rules_.text(Json(key).dump()), json_.colon(), value});
  }

  // Properties come in the order of the schema. Others only where it says so, behind them.
  Expr object(const SchemaAt& s) {
    const bool others = s.value->contains("additionalProperties")
                            ? (*s.value)["additionalProperties"] != Json(false)
                            : !s.value->contains("properties") && !s.value->contains("required");
    const std::set<std::string> required = required_of(s);
    std::vector<Property> properties;
    std::set<std::string> keys = required;
    if (s.value->contains("properties")) {
      const SchemaAt list = part(s, "properties");
      if (!list.value->is_object())
        fail_schema(list.pointer, "expected an object, found " + kind_of(*list.value));
      for (const auto& [key, schema] : list.value->items()) {
        const std::string pointer = pointer_to(list.pointer, key);
        properties.push_back(
            {member_of(key, shared(expression({&schema, pointer}), pointer)), required.contains(key)});
        keys.insert(key);
      }
    }
    Expr other = rules_.never();
    if (others || (*s.value).contains("additionalProperties")) {
      const Json any(true);
      const bool given = s.value->contains("additionalProperties");
      const Expr value = given ? expression(part(s, "additionalProperties")) : json_.any_value();
      add_unlisted(s, required, shared(value, "value"), properties);
      const Expr key = keys.empty() ? json_.any_string() : json_.key_but(keys);
      if (others) other = shared(rules_.sequence({key, json_.colon(), value}), "member");
    } else {
      add_unlisted(s, required, json_.any_value(), properties);
    }
    check_counts(s, properties, others);
    return rules_.sequence({rules_.text("{"), members(properties, other, others), rules_.text("}")});
  }

  // Required keys without a schema of their own.
  void add_unlisted(const SchemaAt& s, const std::set<std::string>& required, Expr value,
                    std::vector<Property>& properties) {
    const Json listed = s.value->value("properties", Json::object());
    for (const std::string& key : required)
      if (!listed.contains(key)) properties.push_back({member_of(key, value), true});
  }

  void check_counts(const SchemaAt& s, const std::vector<Property>& properties, bool others) const {
    const auto required = std::ranges::count_if(properties, &Property::required);
    if (count(s, "minProperties") > required)
      refuse(s, "minProperties", "is not supported above the number of required properties");
    const int64_t max = count(s, "maxProperties");
    if (max >= 0 && (others || max < std::ssize(properties)))
      refuse(s, "maxProperties",
             "is not supported below the number of properties, or where there may be others");
  }

  Expr members(const std::vector<Property>& properties, Expr other, bool others) {
    const auto n = properties.size();
    const auto first_required =
        static_cast<size_t>(std::ranges::find_if(properties, &Property::required) - properties.begin());
    const Expr more = others ? rules_.any_number(rules_.sequence({json_.comma(), other})) : rules_.nothing();
    const auto behind_comma = [&](size_t i) {
      const Expr member = rules_.sequence({json_.comma(), properties[i].member});
      return properties[i].required ? member : rules_.optional(member);
    };
    // Behind property number first_required; all of them come behind a comma.
    std::vector<Expr> parts;
    for (size_t i = first_required + 1; i < n; ++i)
      parts.push_back(behind_comma(i));
    parts.push_back(more);
    Expr rest = rules_.sequence(parts);
    std::vector<Expr> options;  // by what comes first, from the last one that can
    if (first_required == n) {
      options.push_back(rules_.nothing());
      if (others) options.push_back(rules_.sequence({other, more}));
    } else {
      options.push_back(rules_.sequence({properties[first_required].member, rest}));
      rest = rules_.sequence({behind_comma(first_required), rest});
    }
    for (size_t i = first_required; i-- > 0;) {
      rest = shared(rest, "properties");
      options.push_back(rules_.sequence({properties[i].member, rest}));
      rest = rules_.sequence({behind_comma(i), rest});
    }
    return rules_.choice(options);
  }

  SchemaDocument document_;
  Rules& rules_;
  JsonForms json_;
  std::map<std::string, RuleId> rule_ids_;
  std::vector<std::pair<SchemaAt, RuleId>> open_;
  int depth_ = 0;
};

// The depth and size of a schema that did not come as text.
void check_size(const Json& root, const Limits& limits) {
  std::vector<std::pair<const Json*, int>> open{{&root, 1}};
  int64_t values = 0;
  while (!open.empty()) {
    const auto [value, depth] = open.back();
    open.pop_back();
    if (++values > limits.max_expressions)
      fail("JSON schema: expected at most {} values, found more", limits.max_expressions);
    if (depth > 4 * limits.max_nesting)
      fail("JSON schema: expected at most {} values inside each other, found more", 4 * limits.max_nesting);
    if (!value->is_structured()) continue;
    for (const Json& part : *value)
      open.push_back({&part, depth + 1});
  }
}

}  // namespace

RuleId json_schema_rule(Rules& rules, const Json& schema, const SchemaFrame& frame) {
  check_size(schema, rules.limits());
  RuleId root = SchemaCompiler(schema, rules).compile();
  if (frame != SchemaFrame{}) {
    const Expr framed = rules.sequence({rules.text(frame.before), rules.call(root), rules.text(frame.after)});
    const Expr more = frame.between.empty()
                          ? rules.nothing()
                          : rules.any_number(rules.sequence({rules.text(frame.between), framed}));
    root = rules.declare("answer");
    rules.define(root, rules.sequence({framed, more}));
  }
  return root;
}

RuleId json_schema_text_rule(Rules& rules, std::string_view text, const SchemaFrame& frame) {
  const Limits& limits = rules.limits();
  parse_json(text, "JSON schema", {.max_bytes = limits.max_text, .max_depth = 4 * limits.max_nesting});
  return json_schema_rule(rules, Json::parse(text), frame);
}

}  // namespace gpt::grammar
