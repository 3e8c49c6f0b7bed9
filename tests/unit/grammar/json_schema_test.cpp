#include <fmt/core.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"
#include "support/error_of.h"
#include "support/names.h"

namespace gpt::grammar {
namespace {

using test::error_of;
using test::Fact;
using test::names;

struct SchemaCase {
  std::string schema;
  std::vector<std::string> fit, others;
};

void check(const std::vector<SchemaCase>& cases) {
  for (const SchemaCase& c : cases) {
    SCOPED_TRACE(c.schema);
    const GrammarPtr grammar = compile_json_schema_text(c.schema);
    for (const std::string& text : c.fit)
      EXPECT_TRUE(grammar->matches(text)) << text;
    for (const std::string& text : c.others)
      EXPECT_FALSE(grammar->matches(text)) << text;
  }
}

TEST(JsonSchema, Types) {
  check({
      {"true",
       {"1", "[]", "null", R"({"a": [1, "x"]})", "-0.5e-3", "12345678901234567890123"},
       {"", "1 ", "[1,]", "01", "1.", "nul"}},
      {"{}", {"1", R"("\u00e9\n")"}, {R"("\x")", "\"\n\"", R"("\ud800")", R"("\udc00")"}},
      {R"({"type":"null"})", {"null"}, {"0", ""}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "True"}},
      {R"({"type":["integer","null"]})",
       {"-12", "0", "null", "9007199254740993", "18446744073709551616", std::string(100, '9')},
       {"1.0", "01", "-"}},
      {R"({"type":"number"})",
       {"1", "-0.25", "1e5", "2E-10", "0.30000000000000004", "1e-07", "1.5e+22", "5e-324", "1e307", "1e+289"},
       {"1e", ".5", "+1", "NaN", "1e999", "1e310", "15e+308"}},
      {R"({"type":"string","title":"t","description":"d","default":1,"examples":[]})",
       {R"("")", R"("a\"b\\")", "\"\xC3\xA9\"", R"("\ud83d\ude00")"},
       {"\"\x01\"", "\"\xC3\"", "\"", "a"}},
      {R"({"type":"array"})", {"[]", "[1,2]", "[1, [2]]"}, {"[ 1]", "[1 ,2]", "[1,  2]", "[1\n]"}},
      {R"({"type":"object"})", {"{}", R"({"a":1})", R"({"a": 1, "b":{}})"}, {"[]", R"({"a"})", R"({a:1})"}},
      {R"({"minLength":2})", {R"("ab")"}, {R"("a")", "1"}},
      {R"({"minimum":2,"minLength":1})", {"2", R"("a")"}, {"1", R"("")", "null"}},
      {R"({"const":{"a":[1,"x"]}})", {R"({"a":[1,"x"]})"}, {R"({"a": [1,"x"]})", "{}"}},
      {R"({"enum":["a","\n",1,2.5,null,true]})",
       {R"("a")", R"("\n")", "1", "2.5", "null", "true"},
       {"2", "false"}},
      {R"({"enum":[12345678901234567890123,18446744073709551615,-9223372036854775809,1e22,1e-7,1.0,-0.0]})",
       {"12345678901234567890123", "18446744073709551615", "-9223372036854775809", "1e+22", "1e-07", "1.0",
        "-0.0"},
       {"1.2345678901234568e+22", "1e22"}},
      {R"({"const":9007199254740993,"type":"integer"})", {"9007199254740993"}, {"9007199254740992"}},
      {R"({"type":"integer","format":"int32"})",
       {"2147483647", "-2147483648"},
       {"2147483648", "-2147483649"}},
      {R"({"type":"integer","format":"uint64","minimum":1})",
       {"18446744073709551615"},
       {"18446744073709551616", "0"}},
      {R"({"type":"string","nullable":true,"x-order":1,"discriminator":{"propertyName":"k"},"xml":{}})",
       {R"("a")"},
       {"null"}},
      {R"({"enum":["a",1,2.5,null],"type":["integer","string"]})", {R"("a")", "1"}, {"2.5", "null"}},
  });
}

TEST(JsonSchema, Strings) {
  check({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("abc")", "\"\xC3\xA9\xE4\xB8\xAD\"", R"("\n\u00e9")", R"("\ud83d\ude00x")"},
       {R"("a")", R"("abcd")", R"("\ud83d\ude00")"}},
      {R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")"}},
      {R"({"type":"string","pattern":"^[a-z]+\\d$"})", {R"("ab1")"}, {R"("ab")", R"("1")", R"("ab1x")"}},
      {R"({"type":"string","pattern":"b\\d"})", {R"("b1")", R"("xxb1\nyy")"}, {R"("b")"}},
      {R"({"type":"string","pattern":"^a|b$"})", {R"("ax")", R"("xb")"}, {R"("xa")", R"("bx")"}},
      {R"({"type":"string","pattern":"^[\"\\\\\\n/]$"})",
       {R"("\"")", R"("\\")", R"("\n")", R"("/")"},
       {R"("a")", "\"\n\""}},
      {R"({"type":"string","pattern":"^\\u0001$"})", {R"("\u0001")"}, {"\"\x01\""}},
  });
}

TEST(JsonSchema, Arrays) {
  check({
      {R"({"items":{"type":"integer"},"minItems":1,"maxItems":3})",
       {"[1]", "[1,2]", "[1,2, 3]"},
       {"[]", "[1,2,3,4]", "[true]"}},
      {R"({"items":{"type":"integer"},"maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":false})",
       {"[]", "[1]", R"([1,"a"])"},
       {R"([1,"a",2])", R"(["a"])"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"},"minItems":2,"maxItems":3})",
       {R"([1,"a"])", R"([1,"a",null])"},
       {"[1]", R"([1,"a",null,null])", R"([1,"a",1])"}},
      {R"({"prefixItems":[{"type":"null"},{"type":"null"},{"type":"null"}],"maxItems":2})",
       {"[]", "[null]", "[null,null]"},
       {"[null,null,null]"}},
      {R"({"type":"array","minItems":2})", {"[1,2]", "[1,2,3,4]"}, {"[1]"}},
      {R"({"type":"array","uniqueItems":true,"maxItems":1})", {"[]", "[1]"}, {"[1,1]"}},
      {R"({"uniqueItems":true,"items":{"enum":["a","b",1,1.0]}})",
       {"[]", R"(["a"])", R"([1,"a", "b"])"},
       {R"(["a","a"])", "[1,1]", R"(["c"])", "[1,1.0]"}},
      {R"({"uniqueItems":true,"items":{"type":"boolean"},"minItems":1,"maxItems":1})",
       {"[true]", "[false]"},
       {"[]", "[true,false]"}},
      {R"({"uniqueItems":true,"items":{"$ref":"#/$defs/c"},"minItems":2,"$defs":{"c":{"enum":["x","y"],"type":"string"}}})",
       {R"(["x","y"])", R"(["y","x"])"},
       {R"(["x"])", R"(["x","x"])"}},
  });
}

TEST(JsonSchema, Objects) {
  const std::string two = R"({"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"null"}})";
  check({
      {two + R"(,"required":["b","a"],"additionalProperties":false})",
       {R"({"b":1,"a":null})", R"({"b": 1, "a": null})"},
       {"{}", R"({"b":1})", R"({"a":null,"b":1})", R"({"b":1,"a":null,"c":1})"}},
      {two + "}",
       {"{}", R"({"b":1})", R"({"a":null})", R"({"b":1,"a":null})"},
       {R"({"b":1,})", R"({,"b":1})", R"({"c":1})"}},
      {two + R"(,"required":["a"]})", {R"({"a":null})", R"({"b":1,"a":null})"}, {"{}", R"({"b":1})"}},
      {two + R"(,"required":["b"]})", {R"({"b":1})", R"({"b":1,"a":null})"}, {"{}", R"({"a":null})"}},
      {two + R"(,"additionalProperties":{"type":"boolean"}})",
       {"{}", R"({"c":true})", R"({"b":1,"ab":false,"":true})", R"({"aa":true})", R"({"a":null,"d":true})"},
       {R"({"c":1})", R"({"b":true})", R"({"c":true,"b":1})", R"({"\u0062":true})"}},
      {two + R"(,"required":["a","z"],"additionalProperties":true})",
       {R"({"a":null,"z":[1]})", R"({"b":2,"a":null,"z":1,"y":2})"},
       {R"({"a":null})"}},
      {R"({"required":["x"]})", {R"({"x":1})"}, {"{}", R"({"x":1,"y":1})"}},
      {R"({"additionalProperties":{"type":"null"}})", {"{}", R"({"a":null,"b":null})"}, {R"({"a":1})"}},
      {R"({"properties":{"a/b":{"type":"null"},"\"\n":{"type":"null"}},"required":["a/b","\"\n"]})",
       {R"({"a/b":null,"\"\n":null})"},
       {}},
      {two + R"(,"additionalProperties":{"type":"boolean"},"propertyNames":{"type":"string"}})",
       {R"({"b":1,"z":true})"},
       {R"({"z":1})"}},
      {two +
           R"(,"additionalProperties":{"type":"boolean"},"propertyNames":{"enum":["b","z","y"]},"required":["b"]})",
       {R"({"b":1})", R"({"b":1,"z":true,"y":false})", R"({"b":1,"y":true})"},
       {R"({"b":1,"a":null})", R"({"b":1,"z":true,"z":true})", R"({"z":true})"}},
      {R"({"properties":{"ab":{"type":"null"},"X":{}},"additionalProperties":{"type":"integer"},"propertyNames":{"pattern":"^[a-z]+$","maxLength":3}})",
       {"{}", R"({"ab":null,"abc":1,"b":2})", R"({"a":1})"},
       {R"({"abcd":1})", R"({"ab":1})", R"({"X":1})", R"({"":1})", R"({"A":1})"}},
      {R"({"type":"object","propertyNames":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"type":"object","required":["no"],"properties":{"a":{}},"propertyNames":{"minLength":2},"additionalProperties":true})",
       {R"({"no":1})", R"({"no":1,"xy":2})"},
       {R"({"a":1,"no":1})", R"({"no":1,"x":2})"}},
      {R"({"properties":{"a":false,"b":{"type":"null"}}})", {"{}", R"({"b":null})"}, {R"({"a":1})"}},
      {R"({"properties":{"a":{"type":"null"}},"required":["a"],"minProperties":1,"maxProperties":1})",
       {R"({"a":null})"},
       {"{}"}},
  });
}

TEST(JsonSchema, Combinations) {
  check({
      {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})",
       {"1", R"("a")"},
       {R"("ab")", "null"}},
      {R"({"type":"integer","anyOf":[{"minimum":5},{"maximum":1}]})", {"5", "1", "-3"}, {"3", "5.5"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"}]})", {"1", R"("a")"}, {"null"}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"v":{"type":"integer"}},"required":["k","v"]},
                    {"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})",
       {R"({"k":"a","v":1})", R"({"k":"b"})"},
       {R"({"k":"a"})", R"({"k":"c"})"}},
      {R"({"discriminator":{"propertyName":"k"},"oneOf":[{"properties":{"k":{"const":"a"}}},{"$ref":"#/$defs/b"}],
           "$defs":{"b":{"type":"object","properties":{"k":{"const":"b"},"v":{"type":"integer"}}}}})",
       {R"({"k":"a"})", R"({"k":"b"})", R"({"k":"b","v":1})"},
       {"{}", R"({"k":"c"})", R"({"v":1})"}},
      {R"({"allOf":[{"minimum":9007199254740993},{"minimum":9007199254740992}],"maximum":9007199254740995,"type":"integer"})",
       {"9007199254740993", "9007199254740995"},
       {"9007199254740992", "9007199254740996"}},
      {R"({"allOf":[{"type":"integer"},{"minimum":3},{"maximum":7},{"maximum":5}]})", {"3", "5"}, {"2", "6"}},
      {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":3},"b":{"type":"null"}},"required":["b"]}],"type":"object"})",
       {R"({"a":3,"b":null})"},
       {R"({"a":2,"b":null})", R"({"a":3})"}},
      {R"({"allOf":[{"enum":[1,2,3]},{"enum":[2,3,4]}]})", {"2", "3"}, {"1", "4"}},
      {R"({"allOf":[{"type":["number","null"]},{"type":["integer","string"]}]})", {"1"}, {"1.5", "null"}},
      {R"({"$defs":{"x":{"type":"integer"}},"$ref":"#/$defs/x","minimum":4,"description":"d"})",
       {"4"},
       {"3"}},
      {R"({"$defs":{"a/b~%":{"type":"null"}},"items":{"$ref":"#/$defs/a~1b~0%25"}})", {"[null]"}, {"[1]"}},
      {R"({"$defs":{"x":{"$ref":"#/$defs/y"},"y":{"type":"null"}},"$ref":"#/$defs/x"})", {"null"}, {"1"}},
      {R"({"properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["v","next"]})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1})"}},
      {R"({"$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"}}},"$ref":"#/$defs/t"})",
       {"[]", "[[],[[]]]"},
       {"[1]"}},
  });
}

// Checks every integer of a small range, and decimals close to its limits.
TEST(JsonSchema, IntegerRangesAreExact) {
  for (const auto& [low, high] : std::vector<std::pair<int, int>>{
           {0, 0}, {-1, 1}, {-120, 95}, {9, 11}, {99, 1005}, {-1000, -999}, {7, 1234}, {-30, -2}}) {
    const GrammarPtr grammar =
        compile_json_schema_text(fmt::format(R"({{"type":"integer","minimum":{},"maximum":{}}})", low, high));
    const GrammarPtr open = compile_json_schema_text(fmt::format(
        R"({{"type":"integer","exclusiveMinimum":{},"exclusiveMaximum":{}}})", low - 1, high + 1));
    const GrammarPtr above =
        compile_json_schema_text(fmt::format(R"({{"type":"integer","minimum":{}.5}})", low));
    for (int x = -1300; x <= 1300; ++x) {
      const std::string text = std::to_string(x);
      EXPECT_EQ(grammar->matches(text), x >= low && x <= high) << text << " in " << low << " .. " << high;
      EXPECT_EQ(open->matches(text), x >= low && x <= high) << text << " in " << low << " .. " << high;
      EXPECT_EQ(above->matches(text), low < 0 ? x >= low : x > low) << text << " above " << low;
    }
  }
}

TEST(JsonSchema, NumberRangesAreExact) {
  const std::vector<double> limits = {-12.75, -1, -0.5, -0.05, 0, 0.1, 0.25, 1, 9.99, 10, 100.5};
  std::vector<std::string> texts;
  for (const char* sign : {"", "-"})
    for (const char* whole : {"0", "1", "9", "10", "11", "12", "99", "100", "101"})
      for (const char* fraction :
           {"",    ".0",  ".05", ".1", ".10", ".09", ".11", ".25", ".250001", ".24999", ".5",
            ".50", ".51", ".49", ".7", ".75", ".76", ".98", ".99", ".990",    ".991"})
        texts.push_back(std::string(sign) + whole + fraction);
  for (const double low : limits) {
    for (const double high : limits) {
      if (low > high) continue;
      for (const bool open : {false, true}) {
        if (open && low == high) continue;
        const std::string keywords =
            open ? R"("exclusiveMinimum":{},"exclusiveMaximum":{})" : R"("minimum":{},"maximum":{})";
        const GrammarPtr grammar = compile_json_schema_text(
            R"({"type":"number",)" + fmt::format(fmt::runtime(keywords), low, high) + "}");
        for (const std::string& text : texts) {
          const double x = std::stod(text);
          if (text.starts_with("-0") && x == 0 && low >= 0) continue;  // the grammar excludes -0
          EXPECT_EQ(grammar->matches(text), open ? x > low && x < high : x >= low && x <= high)
              << text << " in " << low << " .. " << high << (open ? " open" : "");
        }
      }
    }
  }
}

TEST(JsonSchema, Multiples) {
  for (const char* one : {"1", "1.0"}) {
    const GrammarPtr any = compile_json_schema_text(
        fmt::format(R"({{"type":"integer","multipleOf":{},"minimum":12345678901}})", one));
    EXPECT_TRUE(any->matches("12345678901"));
    EXPECT_FALSE(any->matches("12345678900"));
    EXPECT_FALSE(any->matches("12345678901.5"));
    const GrammarPtr number =
        compile_json_schema_text(fmt::format(R"({{"type":"number","multipleOf":{}}})", one));
    EXPECT_TRUE(number->matches("-7"));
    EXPECT_FALSE(number->matches("0.5"));
  }
  const GrammarPtr large = compile_json_schema_text(R"({"type":"integer","minimum":1e23})");
  EXPECT_TRUE(large->matches("100000000000000000000000"));
  const GrammarPtr seven = compile_json_schema_text(R"({"type":"integer","multipleOf":7})");
  const GrammarPtr within =
      compile_json_schema_text(R"({"type":"integer","multipleOf":7,"minimum":-20,"exclusiveMaximum":49})");
  for (int x = -200; x <= 2000; ++x) {
    EXPECT_EQ(seven->matches(std::to_string(x)), x % 7 == 0) << x;
    EXPECT_EQ(within->matches(std::to_string(x)), x % 7 == 0 && x >= -20 && x < 49) << x;
  }
}

TEST(JsonSchema, RefusesByName) {
  const std::string two_required = R"({"properties":{"a":{}},"required":["z"],"additionalProperties":false})";
  const auto refuses = [](const std::string& schema, std::initializer_list<Fact> facts) {
    return names(error_of([&] { compile_json_schema_text(schema); }), facts) << "\n" << schema;
  };
  EXPECT_TRUE(refuses("", {"JSON"}));
  EXPECT_TRUE(refuses("{\"type\":", {"JSON"}));
  EXPECT_TRUE(refuses("1", {"#"}));
  EXPECT_TRUE(refuses(R"({"type":"int"})", {"#/type", "boolean", "'int'"}));
  EXPECT_TRUE(refuses(R"({"type":[]})", {"#/type"}));
  EXPECT_TRUE(refuses(R"({"not":{}})", {"#/not"}));
  EXPECT_TRUE(refuses(R"({"properties":{"a/b":{"if":{}}}})", {"#/properties/a~1b/if"}));
  EXPECT_TRUE(refuses(R"({"items":{"patternProperties":{}}})", {"#/items/patternProperties"}));
  EXPECT_TRUE(refuses(R"({"$defs":{"x":{"contains":{}}},"$ref":"#/$defs/x"})", {"#/$defs/x/contains"}));
  EXPECT_TRUE(refuses(R"({"type":"string","minLength":-1})", {"#/minLength", 0, -1}));
  EXPECT_TRUE(refuses(R"({"type":"string","maxLength":1.5})", {"#/maxLength", 0, "1.5"}));
  EXPECT_TRUE(refuses(R"({"type":"string","maxLength":1e300})", {"#/maxLength", 10000}));
  EXPECT_TRUE(refuses(R"({"type":"array","maxItems":100000})", {"#/maxItems", 10000, 100000}));
  EXPECT_TRUE(refuses(R"({"type":"array","minItems":10001})", {"#/minItems", 10000, 10001}));
  EXPECT_TRUE(refuses(R"x({"type":"string","pattern":"(?=a)"})x", {"#/pattern", 4}));
  EXPECT_TRUE(refuses(R"({"type":"string","pattern":1})", {"#/pattern"}));
  EXPECT_TRUE(refuses(R"({"type":"string","pattern":"(a|b)*a(a|b){30}","maxLength":3000})", {"#/pattern"}));
  EXPECT_TRUE(refuses(R"({"type":"string","format":"regex"})", {"#/format", "date-time", "'regex'"}));
  EXPECT_TRUE(refuses(R"({"type":"array","uniqueItems":true})", {"#/uniqueItems", "enum", "const"}));
  EXPECT_TRUE(
      refuses(R"({"uniqueItems":true,"items":{"type":"integer"}})", {"#/uniqueItems", "enum", "const"}));
  EXPECT_TRUE(refuses(R"({"uniqueItems":true,"items":{"enum":[1,2,3,4,5,6,7,8,9,10,11,12,13]}})",
                      {"#/uniqueItems", "maxItems"}));
  EXPECT_TRUE(refuses(R"({"propertyNames":{"not":{}}})", {"#/propertyNames", "minLength", "maxLength"}));
  EXPECT_TRUE(refuses(R"({"type":"string","format":"idn-email"})", {"#/format", "date-time", "'idn-email'"}));
  EXPECT_TRUE(refuses(R"({"type":"string","pattern":"a{,3}"})", {"#/pattern", "{,n}"}));
  EXPECT_TRUE(refuses(R"({"type":"array","items":[{}]})", {"#/items", "prefixItems"}));
  EXPECT_TRUE(refuses(R"({"type":"number","multipleOf":0.1})", {"#/multipleOf", 1, "0.1"}));
  EXPECT_TRUE(refuses(R"({"type":"integer","multipleOf":0})", {"#/multipleOf", 1, 0}));
  for (const char* limit : {"12345678901234567890.5", "98765432109876543210.0", "1.2345678901234567890e19"})
    EXPECT_TRUE(refuses(fmt::format(R"({{"type":"integer","minimum":{}}})", limit), {"#/minimum"})) << limit;
  EXPECT_TRUE(
      refuses(R"({"type":"integer","multipleOf":2,"minimum":1})", {"#/multipleOf", "minimum", "maximum"}));
  EXPECT_TRUE(refuses(R"({"type":"number","minimum":"1"})", {"#/minimum"}));
  EXPECT_TRUE(refuses(R"({"type":"number","minimum":1e300})", {"#/minimum", 40}));
  EXPECT_TRUE(refuses(R"({"exclusiveMinimum":true})", {"#/exclusiveMinimum"}));
  EXPECT_TRUE(refuses(R"({"enum":1})", {"#/enum"}));
  EXPECT_TRUE(refuses(R"({"enum":[1,2],"minimum":2})", {"#/minimum", "const", "enum"}));
  EXPECT_TRUE(refuses(R"({"enum":[]})", {"'#'"}));
  EXPECT_TRUE(refuses(R"({"anyOf":[]})", {"#/anyOf"}));
  EXPECT_TRUE(refuses(R"({"anyOf":{}})", {"#/anyOf"}));
  EXPECT_TRUE(refuses(R"({"allOf":1})", {"#/allOf"}));
  EXPECT_TRUE(refuses(R"({"oneOf":[{"type":"integer"},{"minimum":3}]})", {"#/oneOf"}));
  EXPECT_TRUE(refuses(R"({"oneOf":[{"type":"object"},{"type":["object","null"]}]})", {"#/oneOf"}));
  EXPECT_TRUE(refuses(R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", {"'pattern'"}));
  EXPECT_TRUE(
      refuses(R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}}}]})",
              {"'additionalProperties'"}));
  EXPECT_TRUE(refuses(R"({"$ref":"#/$defs/x"})", {"#/$ref", "'#/$defs/x'"}));
  EXPECT_TRUE(refuses(R"({"$ref":"http://x.org/y"})", {"#/$ref", "'http://x.org/y'", "'#/$defs/name'"}));
  EXPECT_TRUE(refuses(R"({"$ref":1})", {"#/$ref"}));
  EXPECT_TRUE(refuses(R"({"$ref":"#"})", {"#/$ref"}));
  EXPECT_TRUE(refuses(R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})",
                      {"#/$ref"}));
  EXPECT_TRUE(
      refuses(R"({"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}},"$ref":"#/$defs/a"})",
              {"'#/$defs/a'"}));
  EXPECT_TRUE(refuses(R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})", {"'#'"}));
  EXPECT_TRUE(refuses(R"({"properties":{"a":{}},"required":"a"})", {"#/required"}));
  EXPECT_TRUE(refuses(R"({"properties":[]})", {"#/properties"}));
  EXPECT_TRUE(refuses(R"({"properties":{"a":1}})", {"#/properties/a"}));
  EXPECT_TRUE(refuses(two_required, {"'#'"}));
  EXPECT_TRUE(refuses(R"({"type":"object","minProperties":3})", {"#/minProperties"}));
  EXPECT_TRUE(refuses(R"({"type":"object","maxProperties":3})", {"#/maxProperties"}));
  EXPECT_TRUE(
      refuses(R"({"type":"object","properties":{"z":{}},"required":["z"],"maxlength":3})", {"#/maxlength"}));
}

// JSON text cannot contain such limits, but a program can pass them.
TEST(JsonSchema, RefusesLimitsThatAreNoNumbers) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (const char* keyword : {"minimum", "exclusiveMaximum", "multipleOf", "minLength", "maxItems"}) {
      const nlohmann::ordered_json schema = {{keyword, bad}};
      EXPECT_TRUE(
          names(error_of([&] { compile_json_schema(schema); }), {"JSON", std::string("#/") + keyword}));
    }
  }
}

TEST(JsonSchema, HostileSchemas) {
  const auto nested = [](int depth, const std::string& open, const std::string& close) {
    std::string text;
    for (int i = 0; i < depth; ++i)
      text += open;
    text += "true";
    for (int i = 0; i < depth; ++i)
      text += close;
    return text;
  };
  const auto refuses = [](const std::string& schema, std::initializer_list<Fact> facts) {
    return names(error_of([&] { compile_json_schema_text(schema); }), facts);
  };
  EXPECT_TRUE(refuses(nested(10000, R"({"items":)", "}"), {"JSON"}));
  EXPECT_TRUE(refuses(nested(200, R"({"items":)", "}"), {"JSON", 128}));
  EXPECT_TRUE(refuses(nested(200, R"({"anyOf":[)", "]}"), {"JSON", 128}));
  EXPECT_TRUE(refuses(nested(200, R"({"allOf":[)", "]}"), {"JSON", "allOf"}));
  EXPECT_TRUE(refuses(std::string(2 << 20, ' '), {"JSON"}));
  // These references grow during their expansion.
  const std::string growing =
      R"({"$defs":{"a":{"properties":{"x":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]}}},
                   "b":{"properties":{"x":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}}},"$ref":"#/$defs/a"})";
  EXPECT_NE(error_of([&] { compile_json_schema_text(growing); }), "no error");
  // A long list of values is supported, and a very long one is an error.
  nlohmann::ordered_json list = {{"enum", nlohmann::ordered_json::array()}};
  for (int i = 0; i < 20000; ++i)
    list["enum"].push_back(fmt::format("value {}", i * 7919));
  EXPECT_TRUE(compile_json_schema(list)->matches("\"value 7919\""));
  for (int i = 0; i < 2000000; ++i)
    list["enum"].push_back(i);
  EXPECT_TRUE(names(error_of([&] { compile_json_schema(list); }), {"JSON", Limits().max_expressions}));
}

}  // namespace
}  // namespace gpt::grammar
