#include <fmt/core.h>
#include <gtest/gtest.h>

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
using test::refused;

struct Case {
  std::string source;
  std::vector<std::string> fit, others;
};

template <class Compile>
void check(const std::vector<Case>& cases, Compile&& compile) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.source);
    const GrammarPtr grammar = compile(c.source);
    for (const std::string& text : c.fit) {
      EXPECT_TRUE(grammar->matches(text)) << text;
      for (size_t n = 0; n <= text.size(); ++n)
        EXPECT_TRUE(grammar->begins(text.substr(0, n))) << text.substr(0, n);
    }
    for (const std::string& text : c.others)
      EXPECT_FALSE(grammar->matches(text)) << text;
  }
}

GrammarPtr gbnf(const std::string& text) {
  return compile_gbnf(text);
}
GrammarPtr regex(const std::string& pattern) {
  return compile_regex(pattern);
}

TEST(Gbnf, Texts) {
  check(
      {
          {"root ::= \"a\"", {"a"}, {"", "aa", "b"}},
          {"root ::= \"a\" | \"b\" # one of two\n", {"a", "b"}, {"ab", ""}},
          {"root ::= \"a\"* \"b\"+ \"c\"?", {"b", "aab", "bbc"}, {"", "a", "bcc"}},
          {"root ::= [a-c0-9_]+", {"a0_"}, {"d", ""}},
          {"root ::= [^a]", {"b", "\xC3\xA9", "\xF0\x9F\x98\x80", "\n"}, {"a", "bb", "\xC3"}},
          {"root ::= .", {"x", "\xE4\xB8\xAD"}, {"", "xy", "\xED\xA0\x80", "\xFF"}},
          {"root ::= [\\u00e9-\\u4e2d]",
           {"\xC3\xA9", "\xE4\xB8\xAD", "\xDF\xBF", "\xE0\xA0\x80"},
           {"\xC3\xA8", "\xE4\xB8\xAE"}},
          {"root ::= \"\\x41\\t\\\"\\\\\\U0001F600\"", {"A\t\"\\\xF0\x9F\x98\x80"}, {}},
          {"root ::= x{2}\nx ::= \"x\"", {"xx"}, {"x", "xxx"}},
          {"root ::= \"x\"{2,3} \"y\"{0,1} \"z\"{1,}", {"xxz", "xxxyzzz"}, {"xz", "xxxxz", "xxyy", "xx"}},
          {"root ::= (\"a\"\n  | \"b\" )+ c\n\nc ::=\n  \"c\" |\n  \"d\"\n", {"abc", "bd"}, {"c", "ab"}},
          {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "())"}},
          {"root ::= list\nlist ::= item (\",\" item)*\nitem ::= [0-9] | \"[\" list \"]\"",
           {"1", "1,[2,[3]]"},
           {"1,", "[1"}},
          {"root ::= a b\na ::= \"x\"?\nb ::= a \"y\"?", {"", "x", "xx", "xxy", "y"}, {"yx", "xxx"}},
          {"root ::= a+\na ::= \"x\" | \"\"", {"", "x", "xxxx"}, {"y"}},
          {"root ::= [a\\-z\\]]+", {"a-z]"}, {"b"}},
          {"root ::= [a-]", {"a", "-"}, {"b"}},
      },
      gbnf);
}

TEST(Gbnf, RefusesWhatIsMalformed) {
  const auto refuses = [](const std::string& text, std::initializer_list<Fact> facts) {
    return names(error_of([&] { compile_gbnf(text); }), facts) << "\n" << text;
  };
  EXPECT_TRUE(refuses("", {"'root'"}));
  EXPECT_TRUE(refuses("a ::= \"x\"", {"'root'"}));
  EXPECT_TRUE(refuses("root ::= a", {"'a'"}));
  EXPECT_TRUE(refuses("root ::= \"a", {1, 12, "'\"'"}));
  EXPECT_TRUE(refuses("root ::= [a", {1, 12, "']'"}));
  EXPECT_TRUE(refuses("root ::= (\"a\"", {1, 14, "')'"}));
  EXPECT_TRUE(refuses("root ::= \"a\" )", {1, 14, "')'"}));
  EXPECT_TRUE(refuses("root = \"a\"", {1, 6, "'::='"}));
  EXPECT_TRUE(refuses("root ::= \"a\"{3,2}", {"{3,2}"}));
  EXPECT_TRUE(refuses("root ::= \"a\"{1,1000000}", {10000, 1000000}));
  EXPECT_TRUE(refuses("root ::= \"a\"{99999999999999999999}", {10000}));
  EXPECT_TRUE(refuses("root ::= \"a\"{x}", {1, 14}));
  EXPECT_TRUE(refuses("root ::= \"\\q\"", {1, 12, "\\xHH"}));
  EXPECT_TRUE(refuses("root ::= \"\\xZZ\"", {1, 13}));
  EXPECT_TRUE(refuses("root ::= \"\\uD800\"", {1, 17}));
  EXPECT_TRUE(refuses("root ::= <think>", {1, 10}));
  EXPECT_TRUE(refuses("root ::= root \"a\" | \"b\"", {"'root'"}));
  EXPECT_TRUE(refuses("root ::= a\na ::= b? a \"x\" | \"y\"\nb ::= \"z\"", {"'a'"}));
  EXPECT_TRUE(refuses("root ::= \"a\" root", {"'root'"}));
  EXPECT_TRUE(refuses("root ::= \"a\"\nroot ::= \"b\"", {"'root'"}));
  EXPECT_TRUE(refuses("root ::= \"\xFF\"", {"UTF-8", 10}));
  EXPECT_TRUE(refuses("root ::= [z-a]", {1, 14}));
}

TEST(Regex, Texts) {
  check(
      {
          {"abc", {"abc"}, {"", "ab", "abcd"}},
          {"^abc$", {"abc"}, {"abcd"}},
          {"a|bc|", {"a", "bc", ""}, {"ab"}},
          {"(ab)+?c*", {"ab", "ababcc"}, {"c"}},
          {"a{2}b{1,2}c{0,}d{2,}", {"aabdd", "aabbccddd"}, {"abdd", "aabd"}},
          {"[^a-c\\d]", {"d", "\xC3\xA9"}, {"a", "5"}},
          {"\\d+\\.\\d{2}", {"1.25", "10.00"}, {"1.2", ".25"}},
          {"\\w\\W\\s\\S", {"a- b", "_\xC3\xA9\tx"}, {"--  "}},
          {"\\u00e9\\x41\\u{1F600}\\uD83D\\uDE00",
           {"\xC3\xA9"
            "A"
            "\xF0\x9F\x98\x80\xF0\x9F\x98\x80"},
           {}},
          {"(?:a|(?<name>b))x?", {"a", "bx"}, {"ab"}},
          {".", {"a", "\xE2\x82\xAC"}, {"\n", "\xE2\x80\xA8"}},
          {"a{b", {"a{b"}, {"ab"}},
          {"a{", {"a{"}, {"a"}},
          {"{a}", {"{a}"}, {"a"}},
          {"a}b]", {"a}b]"}, {"ab"}},
          {"a{2", {"a{2"}, {"aa"}},
          {"a{2,b}", {"a{2,b}"}, {"aa"}},
          {"(?P<x>a|b)+", {"ab"}, {""}},
          {"[\\]\\-\\\\]+", {"]-\\"}, {"a"}},
          {"\\cJ\\n\\0", {std::string("\n\n\0", 3)}, {}},
          {"[a-z]{1,3}(-[a-z]{1,3})*", {"ab", "abc-d-ef"}, {"abcd", "a-"}},
      },
      regex);
}

TEST(Regex, RefusesWhatIsMalformedOrNotSupported) {
  const auto refuses = [](const std::string& text, std::initializer_list<Fact> facts) {
    return names(error_of([&] { compile_regex(text); }), facts) << "\n" << text;
  };
  EXPECT_TRUE(refuses("(a", {3, "')'"}));
  EXPECT_TRUE(refuses("a)", {2, "')'"}));
  EXPECT_TRUE(refuses("[a", {3, "']'"}));
  EXPECT_TRUE(refuses("*a", {1}));
  EXPECT_TRUE(refuses("a**", {3}));
  EXPECT_TRUE(refuses("a{2,1}", {2}));
  EXPECT_TRUE(refuses("a{1,1000000}", {10000, 1000000}));
  EXPECT_TRUE(refuses("a{,3}", {2, "{,n}"}));
  EXPECT_TRUE(refuses("a{,}", {2, "{,n}"}));
  EXPECT_TRUE(refuses("{,3}", {1, "{,n}"}));
  EXPECT_TRUE(refuses("[]a]", {2, "']'"}));
  EXPECT_TRUE(refuses("[^]", {3, "']'"}));
  EXPECT_TRUE(refuses("[[:alpha:]]", {2, "[:name:]"}));
  EXPECT_TRUE(refuses("[a-z&&b]", {5, "[:name:]", "&&"}));
  EXPECT_TRUE(refuses("[a~~b]", {3, "[:name:]", "&&"}));
  EXPECT_TRUE(refuses("(?=a)", {4}));
  EXPECT_TRUE(refuses("(?<!a)b", {5}));
  EXPECT_TRUE(refuses("(a)\\1", {6}));
  EXPECT_TRUE(refuses("\\bword", {3}));
  EXPECT_TRUE(refuses("\\p{L}", {3}));
  EXPECT_TRUE(refuses("(?i:a)", {2}));
  EXPECT_TRUE(refuses("a^b", {2}));
  EXPECT_TRUE(refuses("(a$)", {3}));
  EXPECT_TRUE(refuses("a$b", {3}));
  EXPECT_TRUE(refuses("[z-a]", {5}));
  EXPECT_TRUE(refuses("\\", {2}));
  EXPECT_TRUE(refuses("\\uD800", {7}));
  EXPECT_TRUE(refuses("\\y", {3, "\\y"}));
  EXPECT_TRUE(refuses("[a", {3}));
  EXPECT_TRUE(refuses("\xFF", {"UTF-8", 0}));
}

// Checks every limit on grammars. None of the limits relies on the depth of the call stack.
TEST(Limits, HostileGrammars) {
  const std::string many(60000, '(');
  EXPECT_TRUE(names(error_of([&] { compile_gbnf("root ::= " + many); }), {128}));
  EXPECT_TRUE(names(error_of([&] { compile_regex(many); }), {128}));
  EXPECT_TRUE(names(error_of([&] { compile_regex(std::string(2 << 20, 'a')); }), {1048576, 2 << 20}));
  // Repetitions are rule calls.
  EXPECT_TRUE(compile_regex("((a{1000}){1000}){1000}")->begins(std::string(2000, 'a')));
  EXPECT_TRUE(refused([&] { compile_regex("(a|b)*a(a|b){30}"); }, "grammar", {Limits().max_steps}));
  std::string nested = "root ::= ";
  for (int i = 0; i < 100; ++i)
    nested += "(";
  nested += "\"a\"";
  for (int i = 0; i < 100; ++i)
    nested += "){0,10000}";
  EXPECT_TRUE(refused([&] { compile_gbnf(nested); }, "grammar", {Limits().max_steps}));
  std::string chain = "root ::= a0\n";
  for (int i = 0; i < 1000; ++i)
    chain += fmt::format("a{} ::= a{}\n", i, i + 1);
  EXPECT_TRUE(compile_gbnf(chain + "a1000 ::= \"x\"")->matches("x"));
  EXPECT_TRUE(refused([&] { compile_gbnf(chain + "a1000 ::= a0 | \"x\""); }, "grammar", {"'a0'"}));
}

// The depth of a text is not limited.
TEST(Limits, DeepTexts) {
  const GrammarPtr grammar = compile_gbnf("root ::= \"(\" root \")\" | \"\"");
  const std::string open(60000, '('), close(60000, ')');
  EXPECT_TRUE(grammar->matches(open + close));
  EXPECT_FALSE(grammar->matches(open + close + ")"));
  EXPECT_FALSE(grammar->matches(open + close.substr(1)));
}

// Parsing takes linear time for texts with a huge number of derivations.
TEST(Limits, AmbiguousGrammars) {
  const GrammarPtr two =
      compile_gbnf("root ::= \"a\" b \"x\" | \"a\" c \"y\" | \"z\"\nb ::= root\nc ::= root | \"z\"");
  EXPECT_TRUE(two->matches(std::string(500, 'a') + "z" + std::string(250, 'x') + std::string(250, 'y')));
  EXPECT_FALSE(two->matches(std::string(500, 'a') + "z" + std::string(250, 'x') + std::string(251, 'y')));
  EXPECT_TRUE(compile_gbnf("root ::= \"a\" (root root)?")->matches(std::string(301, 'a')));
}

}  // namespace
}  // namespace gpt::grammar
