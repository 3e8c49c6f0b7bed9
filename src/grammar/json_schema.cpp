#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/ascii.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "grammar/formats.h"
#include "grammar/front_ends.h"
#include "grammar/json_forms.h"
#include "grammar/json_numbers.h"
#include "grammar/json_strings.h"
#include "grammar/rules.h"
#include "grammar/schema.h"

namespace gpt::grammar {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostMultiple = 100;
constexpr int32_t kSmall = 24;  // larger expressions become a rule if they are used more than once

// Returns the types that a keyword constrains, or 0 if the keyword applies to all types or is unknown.
uint8_t types_for(const std::string& keyword) {
  static const std::map<std::string, uint8_t> known = {
      {"minLength", kString},        {"maxLength", kString},        {"pattern", kString},
      {"format", kString},           {"minimum", kNumber},          {"maximum", kNumber},
      {"exclusiveMinimum", kNumber}, {"exclusiveMaximum", kNumber}, {"multipleOf", kNumber},
      {"properties", kObject},       {"required", kObject},         {"additionalProperties", kObject},
      {"minProperties", kObject},    {"maxProperties", kObject},    {"items", kArray},
      {"prefixItems", kArray},       {"minItems", kArray},          {"maxItems", kArray},
      {"uniqueItems", kArray},       {"propertyNames", kObject},
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
    while (!open_.empty()) {  // compile the referenced schemas one after the other
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

  // Converts a large expression to a rule, so that several uses share one copy.
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
      fail_schema(s.pointer, fmt::format("expected at most {} levels of nested schemas, found more",
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
      refuse(s, keyword, "this keyword is not supported; rewrite the schema without it");
    }
  }

  // Returns the keywords that constrain values.
  std::vector<std::string> sayings(const SchemaAt& s) const {
    std::vector<std::string> found;
    for (const auto& [keyword, value] : s.value->items())
      if (!is_annotation(keyword) && keyword != "$id") found.push_back(keyword);
    return found;
  }

  bool says_only(const SchemaAt& s, std::initializer_list<std::string_view> keywords) const {
    return std::ranges::all_of(sayings(s), [&](const std::string& keyword) {
      return std::ranges::find(keywords, keyword) != keywords.end();
    });
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
      fail_schema(list.pointer, "expected a non-empty list of schemas, found " + kind_of(*list.value));
    std::vector<SchemaAt> all;
    for (size_t i = 0; i < list.value->size(); ++i)
      all.push_back({&(*list.value)[i], fmt::format("{}/{}", list.pointer, i)});
    if (std::string_view(keyword) == "oneOf") {
      require_discriminator(s, all);
      check_disjoint(all, list.pointer);
    }
    Json rest = *s.value;
    rest.erase(keyword);
    std::vector<Expr> result;
    for (const SchemaAt& option : all)
      result.push_back(
          expression(says_more ? document_.all_of({{&rest, s.pointer}, option}, option.pointer) : option));
    return rules_.choice(result);
  }

  // OpenAPI's discriminator names a property that all options of oneOf have. pydantic omits the property from
  // `required` if the property has a default, so this function makes the property required.
  void require_discriminator(const SchemaAt& s, std::vector<SchemaAt>& options) {
    const Json name = s.value->value("discriminator", Json::object()).value("propertyName", Json());
    if (!name.is_string()) return;
    discriminators_.push_back({{"type", "object"}, {"required", Json::array({name})}});
    const SchemaAt has_it{&discriminators_.back(), s.pointer + "/discriminator"};
    for (SchemaAt& option : options) {
      const SchemaAt resolved = document_.resolved(option);
      const Json required = resolved.value->is_object() ? resolved.value->value("required", Json()) : Json();
      if (std::find(required.begin(), required.end(), name) == required.end())
        option = document_.all_of({option, has_it}, option.pointer);
    }
  }

  void check_disjoint(const std::vector<SchemaAt>& all, const std::string& pointer) const {
    constexpr size_t kMost = 256;  // limited because all pairs are compared
    if (all.size() > kMost)
      fail_schema(pointer, fmt::format("expected at most {} schemas, found {}", kMost, all.size()));
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        if (document_.disjoint(all[k], all[i])) continue;
        fail_schema(pointer, fmt::format("expected schemas that exclude each other, found that schemas {} "
                                         "and {} can match the same value; use anyOf, or give them different "
                                         "types, constants or a required property with different constants",
                                         k, i));
      }
    }
  }

  // Compiles `const` and `enum`. Listed values are dropped if `type` does not allow their type.
  Expr values(const SchemaAt& s, const std::vector<std::string>& keywords) {
    for (const std::string& keyword : keywords)
      if (keyword != "const" && keyword != "enum" && keyword != "type")
        refuse(s, keyword,
               "this keyword is not supported together with const or enum; remove it and the values that it "
               "excludes");
    const uint8_t types = types_of_keyword(s);
    std::vector<Expr> texts;
    for (const Json& value : listed_values(s)) {
      if ((types_of_value(value) & types) == 0) continue;
      if (value.is_number_float() && !std::isfinite(value.get<double>()))
        fail_schema(s.pointer, "expected finite numbers");
      texts.push_back(rules_.text(json_text(value)));
    }
    return rules_.choice(texts);
  }

  Expr of_types(const SchemaAt& s, const std::vector<std::string>& keywords) {
    uint8_t types = types_of_keyword(s);
    if (!s.value->contains("type")) {  // use the types that the other keywords constrain
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
    if (!is_number(*found)) refuse(s, keyword, "expected a number, found " + kind_of(*found));
    if (found->is_number_float() && !std::isfinite(found->get<double>()))
      refuse(s, keyword, "expected a finite number");
    const std::string text = number_text(*found);
    const Decimal limit = parse_decimal(text, "JSON schema: " + pointer_to(s.pointer, keyword));
    // Above 2^53, the nearest double may be a different integer, unless the integer has few digits.
    constexpr double kExact = 9007199254740992;
    constexpr ptrdiff_t kShort = 15;
    if (found->is_number_float() && std::abs(found->get<double>()) >= kExact &&
        std::ranges::count_if(text.substr(0, text.find('e')), is_ascii_digit) > kShort) {
      refuse(s, keyword,
             "expected an integer without decimal point or exponent, because it exceeds 2^53, found " + text);
    }
    return limit;
  }

  NumberRange range_of(const SchemaAt& s) const {
    NumberRange range{bound(s, "minimum"), bound(s, "maximum")};
    if (const auto format = format_range(s)) {
      if (!range.low || compare(*format->low, *range.low) > 0) range.low = format->low;
      if (!range.high || compare(*format->high, *range.high) < 0) range.high = format->high;
    }
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
    if (const auto of = s.value->find("multipleOf"); of != s.value->end()) {
      if (*of != 1) return multiples(s, range);
      integers = true;
    }
    if (!range.low && !range.high) return integers ? json_.integer() : json_.number();
    return numbers_between(rules_, range, integers);
  }

  Expr multiples(const SchemaAt& s, const NumberRange& range) {
    const Json& value = (*s.value)["multipleOf"];
    if (!value.is_number() || types_of_value(value) != kInteger || value.get<double>() < 1 ||
        value.get<double>() > static_cast<double>(kMostMultiple)) {
      refuse(s, "multipleOf",
             fmt::format("expected an integer from 1 to {}, found {}", kMostMultiple, json_text(value)));
    }
    const auto n = value.is_number_float() ? static_cast<int64_t>(value.get<double>()) : value.get<int64_t>();
    if (!range.low && !range.high) return multiples_of(rules_, n);
    constexpr size_t kMostListed = 10;  // limits must have at most this many digits
    constexpr int64_t kMost = 1000;
    if (!range.low || !range.high || range.low->whole.size() > kMostListed ||
        range.high->whole.size() > kMostListed)
      refuse(s, "multipleOf",
             "expected either no limits, or a minimum and a maximum of at most 10 digits each");
    const auto floor_of = [&](const Decimal& x) {
      return (x.negative ? -1 : 1) * (std::stoll(x.whole) / n) - (x.negative ? 1 : 0);
    };
    std::vector<Expr> texts;
    const int64_t first = floor_of(*range.low), last = floor_of(*range.high) + 1;
    if (last - first > kMost)
      refuse(s, "multipleOf",
             fmt::format("expected at most {} multiples within the limits, found more", kMost));
    for (int64_t i = first; i <= last; ++i) {
      const std::string text = std::to_string(i * n);
      if (range.contains(parse_decimal(text, "multiple"))) texts.push_back(rules_.text(text));
    }
    return rules_.choice(texts);
  }

  // -------------------------------------------------------------------------------------------------

  // Returns the integer range of an OpenAPI `format`. Other formats are only annotations for numbers.
  static std::optional<NumberRange> format_range(const SchemaAt& s) {
    const auto name = s.value->find("format");
    if (name == s.value->end() || !name->is_string()) return std::nullopt;
    const IntegerFormat* format = find_integer_format(name->get_ref<const std::string&>());
    if (format == nullptr) return std::nullopt;
    return NumberRange{parse_decimal(format->low, "format"), parse_decimal(format->high, "format")};
  }

  // -------------------------------------------------------------------------------------------------

  // Equal string schemas share one rule, because automata with length limits can be large.
  Expr string(const SchemaAt& s) {
    Json key = Json::object();
    for (const char* keyword : {"pattern", "format", "minLength", "maxLength"})
      if (s.value->contains(keyword)) key[keyword] = (*s.value)[keyword];
    const auto [known, fresh] = strings_.try_emplace(json_text(key), -1);
    if (fresh) known->second = shared(string_expression(s, rules_, json_), "string");
    return known->second;
  }

  // -------------------------------------------------------------------------------------------------

  Expr array(const SchemaAt& s) {
    const int64_t min = std::max<int64_t>(count_of(s, "minItems"), 0), max = count_of(s, "maxItems");
    if (s.value->value("uniqueItems", Json(false)) != Json(false) && (max < 0 || max > 1))
      return unique_items(s, min, max);
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
        refuse(s, "items", "expected one schema, found a list; use prefixItems for a list");
      rest = shared(expression(part(s, "items")), pointer_to(s.pointer, "items"));
    }
    const Expr some = items(first, rest, min, max,
                            "JSON schema: " + pointer_to(s.pointer, max < 0 ? "minItems" : "maxItems"));
    const Expr none = min == 0 ? rules_.nothing() : rules_.never();
    return rules_.sequence(
        {rules_.text("["), max == 0 ? none : rules_.choice({some, none}), rules_.text("]")});
  }

  // Returns the possible items of an array with uniqueItems. Throws Error if the schema does not list the
  // values of the items.
  std::vector<Json> listed_items(const SchemaAt& s) const {
    std::vector<Json> found;
    const SchemaAt items =
        s.value->contains("items") ? document_.resolved(part(s, "items")) : SchemaAt{s.value, s.pointer};
    const Json& value = *items.value;
    const bool booleans = value.is_object() && value.value("type", Json()) == "boolean";
    if (s.value->contains("prefixItems") || !s.value->contains("items") ||
        !(lists_values(value) || booleans) || !says_only(items, {"type", "enum", "const"}))
      refuse(s, "uniqueItems",
             "this keyword is only supported for items with enum, const or the type boolean; remove it");
    const uint8_t types = types_of_keyword(items);
    for (const Json& one : lists_values(value) ? listed_values(items) : std::vector<Json>{true, false}) {
      if ((types_of_value(one) & types) != 0 && std::find(found.begin(), found.end(), one) == found.end())
        found.push_back(one);
    }
    return found;
  }

  // Matches arrays of listed values without duplicates. Each state of the graph is the set of values that the
  // array already contains.
  Expr unique_items(const SchemaAt& s, int64_t min, int64_t max) {
    constexpr size_t kMostSets = 2048;
    const std::vector<Json> values = listed_items(s);
    std::vector<std::vector<bool>> sets{std::vector<bool>(values.size(), false)};
    std::map<std::vector<bool>, int32_t> numbers{{sets[0], 0}};
    std::vector<Rules::GraphEdge> edges;
    for (size_t i = 0; i < sets.size(); ++i) {
      const std::vector<bool> used = sets[i];
      const int64_t n = std::count(used.begin(), used.end(), true);
      const auto from = static_cast<int32_t>(i);
      if (n >= min) edges.push_back({from, Rules::kGraphEnd, rules_.nothing()});
      for (size_t v = 0; v < values.size() && (max < 0 || n < max); ++v) {
        if (used[v]) continue;
        std::vector<bool> next = used;
        next[v] = true;
        const auto [known, fresh] = numbers.try_emplace(next, static_cast<int32_t>(sets.size()));
        if (fresh) sets.push_back(next);
        const Expr text = rules_.text(json_text(values[v]));
        edges.push_back({from, known->second, n == 0 ? text : rules_.sequence({json_.comma(), text})});
      }
      if (sets.size() > kMostSets)
        refuse(s, "uniqueItems",
               fmt::format("expected at most {} different sets of items, found more; remove uniqueItems or "
                           "lower maxItems",
                           kMostSets));
    }
    return rules_.sequence({rules_.text("["), rules_.graph(edges), rules_.text("]")});
  }

  // Matches the items of a non-empty array.
  Expr items(const std::vector<Expr>& first, Expr rest, int64_t min, int64_t max, const std::string& what) {
    if (max >= 0 && max < min) return rules_.never();
    rules_.check_repetition(std::max(min, max), what);
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
    Expr member;  // the key and the value
    bool required;
  };

  std::set<std::string> required_of(const SchemaAt& s) const {
    std::set<std::string> names;
    const auto found = s.value->find("required");
    if (found == s.value->end()) return names;
    if (!found->is_array())
      refuse(s, "required", "expected a list of property names, found " + kind_of(*found));
    for (const Json& name : *found) {
      if (!name.is_string()) refuse(s, "required", "expected property names, found " + kind_of(name));
      names.insert(name.get<std::string>());
    }
    return names;
  }

  Expr member_of(const std::string& key, Expr value) {
    return rules_.sequence({rules_.text(Json(key).dump()), json_.colon(), value});
  }

  // The keys that propertyNames allows: all keys, a list of names, or the strings that an automaton accepts.
  struct PropertyNames {
    std::optional<std::vector<std::string>> listed = {};
    std::optional<CharacterAutomaton> shape = {};

    bool allow(const std::string& key) const {
      if (listed) return std::ranges::find(*listed, key) != listed->end();
      return !shape || accepts(*shape, key);
    }
  };

  PropertyNames names_of(const SchemaAt& s) const {
    if (!s.value->contains("propertyNames")) return {};
    const SchemaAt names = document_.resolved(part(s, "propertyNames"));
    const PropertyNames none{.listed = std::vector<std::string>()};
    if (names.value->is_boolean()) return names.value->get<bool>() ? PropertyNames{} : none;
    if (!names.value->is_object())
      refuse(s, "propertyNames", "expected a schema, found " + kind_of(*names.value));
    if ((types_of_keyword(names) & kString) == 0) return none;
    if (says_only(names, {"type"})) return {};
    if (lists_values(*names.value) && says_only(names, {"type", "enum", "const"})) {
      std::vector<std::string> listed;
      for (const Json& name : listed_values(names))
        if (name.is_string()) listed.push_back(name.get<std::string>());
      return {.listed = listed};
    }
    if (!says_only(names, {"type", "pattern", "format", "minLength", "maxLength"}))
      refuse(s, "propertyNames",
             "expected only the keywords type, enum, const, pattern, format, minLength and maxLength");
    return {.shape = string_automaton(names, rules_.limits())};
  }

  // Properties have the same order as in the schema. Additional properties follow if the schema allows them.
  Expr object(const SchemaAt& s) {
    const bool given = s.value->contains("additionalProperties");
    bool others = given ? (*s.value)["additionalProperties"] != Json(false)
                        : !s.value->contains("properties") && !s.value->contains("required");
    const PropertyNames names = names_of(s);
    const std::set<std::string> required = required_of(s);
    std::vector<Property> properties;
    std::set<std::string> keys = required;
    const auto add = [&](const std::string& key, Expr value) {
      properties.push_back(
          {member_of(key, names.allow(key) ? value : rules_.never()), required.contains(key)});
      keys.insert(key);
    };
    std::set<std::string> described;
    if (s.value->contains("properties")) {
      const SchemaAt list = part(s, "properties");
      if (!list.value->is_object())
        fail_schema(list.pointer, "expected an object, found " + kind_of(*list.value));
      for (const auto& [key, schema] : list.value->items()) {
        const std::string pointer = pointer_to(list.pointer, key);
        add(key, shared(expression({&schema, pointer}), pointer));
        described.insert(key);
      }
    }
    const Expr value =
        given ? shared(expression(part(s, "additionalProperties")), "value") : json_.any_value();
    for (const std::string& key : required)
      if (!described.contains(key)) add(key, value);
    if (others && names.listed) {
      for (const std::string& key : *names.listed)
        if (!keys.contains(key)) add(key, value);
      others = false;
    }
    const Expr other = others ? other_member(names, keys, value) : rules_.never();
    check_counts(s, properties, others);
    return rules_.sequence({rules_.text("{"), members(properties, other, others), rules_.text("}")});
  }

  // Matches a property whose key is not in `keys`.
  Expr other_member(const PropertyNames& names, const std::set<std::string>& keys, Expr value) {
    Expr key = keys.empty() ? json_.any_string() : json_.key_but(keys);
    if (names.shape) {
      const CharacterAutomaton shape =
          intersection(*names.shape, all_but(keys), rules_.limits(), "JSON schema: propertyNames");
      key = json_.string_of(automaton_expression(rules_, shape, json_.characters()));
    }
    return shared(rules_.sequence({key, json_.colon(), value}), "member");
  }

  void check_counts(const SchemaAt& s, const std::vector<Property>& properties, bool others) const {
    const auto required = std::ranges::count_if(properties, &Property::required);
    if (count_of(s, "minProperties") > required)
      refuse(s, "minProperties", "a value above the number of required properties is not supported");
    const int64_t max = count_of(s, "maxProperties");
    if (max >= 0 && (others || max < std::ssize(properties)))
      refuse(s, "maxProperties",
             "this keyword is only supported if additional properties are not allowed and the limit is at "
             "least the number of properties");
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
    // Properties with an index above first_required. Each of these properties follows a comma.
    std::vector<Expr> parts;
    for (size_t i = first_required + 1; i < n; ++i)
      parts.push_back(behind_comma(i));
    parts.push_back(more);
    Expr rest = rules_.sequence(parts);
    // Each property that can be the first in an object adds one option. The loop visits these properties in
    // reverse order.
    std::vector<Expr> options;
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
  std::deque<Json> discriminators_;
  std::map<std::string, Expr> strings_;  // by the JSON text of the string keywords
  int depth_ = 0;
};

// Checks the nesting depth and the size of a schema that was not parsed from text.
void check_size(const Json& root, const Limits& limits) {
  std::vector<std::pair<const Json*, int>> open{{&root, 1}};
  int64_t values = 0;
  while (!open.empty()) {
    const auto [value, depth] = open.back();
    open.pop_back();
    if (++values > limits.max_expressions)
      fail("JSON schema: expected at most {} values, found more", limits.max_expressions);
    if (depth > 4 * limits.max_nesting)
      fail("JSON schema: expected at most {} levels of nested values, found more", 4 * limits.max_nesting);
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
    root = rules.declare("response");
    rules.define(root, rules.sequence({framed, more}));
  }
  return root;
}

RuleId json_schema_text_rule(Rules& rules, std::string_view text, const SchemaFrame& frame) {
  const Limits& limits = rules.limits();
  const JsonLimits of_text{.max_bytes = limits.max_text, .max_depth = 4 * limits.max_nesting};
  return json_schema_rule(rules, parse_json_document(text, "JSON schema", of_text), frame);
}

}  // namespace gpt::grammar
