#include "text/pre_tokenizer.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "text/byte_level.h"
#include "text/vocab_data.h"
#include "unit/text/golden_rows.h"

namespace gpt::detail {
namespace {

using Json = nlohmann::json;
using Pieces = std::vector<std::string>;
using test::expect_message;
using test::names;

Pieces split(const PreTokenizer& pre_tokenizer, std::string_view text) {
  Pieces pieces;
  PreTokenizer::Run run(pre_tokenizer);
  if (!text.empty()) run.split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

// The expected pieces are from Hugging Face tokenizers for unusual texts (scripts/golden/make_tokenizers.py).
TEST(PreTokenizer, GivesThePiecesOfTokenizers) {
  std::ifstream file(test::kTextData + "pre_tokenizers.jsonl");
  int compared = 0;
  for (std::string line; std::getline(file, line);) {
    const Json row = Json::parse(line);
    const auto steps = read_split_steps(row["pre_tokenizer"], "golden");
    const PreTokenizer one(steps), again(read_split_steps(split_steps_json(steps), "written again"));
    for (const Json& sample : row["cases"]) {
      const std::string text = sample[0];
      Pieces pieces = split(one, text);
      EXPECT_EQ(split(again, text), pieces) << row["name"];
      for (std::string& piece : pieces)
        piece = in_alphabet(piece);
      EXPECT_EQ(pieces, sample[1].get<Pieces>()) << row["name"] << " " << sample[0];
      ++compared;
    }
  }
  EXPECT_EQ(compared, 12 * 36);
}

TEST(PreTokenizer, PatternsAgreeWithTheirRegularExpressions) {
  RandomStream random(12, RandomSite::test);
  constexpr const char* kUnits[] = {
      " ",   "  ", "a", "B", "\n", "\r",       "\t",       "1",        "23",           "'s",
      "'LL", ".",  "/", "é", "中", "\xC2\xA0", "\xCC\x81", "\xC7\x85", "\xE2\x85\xA7", "\xF0\x9F\x98\x80",
      "\xFF"};
  for (const SplitPattern pattern : {SplitPattern::gpt2, SplitPattern::qwen2, SplitPattern::o200k}) {
    const PreTokenizer by_hand({{.pattern = pattern}});
    const PreTokenizer by_regex(
        {{.kind = SplitStep::Kind::regex, .regex = std::string(split_regex(pattern))}});
    for (int round = 0; round < 400; ++round) {
      std::string text;
      for (uint64_t i = 1 + random.below(12); i > 0; --i)
        text += kUnits[random.below(std::size(kUnits))];
      EXPECT_EQ(split(by_hand, text), split(by_regex, text)) << text;
    }
  }
}

TEST(PreTokenizer, AnyBytesAreCovered) {
  RandomStream random(13, RandomSite::test);
  const PreTokenizer all({{.kind = SplitStep::Kind::regex, .regex = R"(\s?\p{L}+|\p{^N})"},
                          {.kind = SplitStep::Kind::punctuation},
                          {.pattern = SplitPattern::gpt2},
                          {.kind = SplitStep::Kind::digits, .each_digit = true, .in_alphabet = true}});
  for (int round = 0; round < 300; ++round) {
    std::string bytes(1 + random.below(40), '\0'), joined;
    for (char& c : bytes)
      c = random.below(3) == 0 ? static_cast<char>(random.below(256)) : "' \nsA1\xC3\xA9"[random.below(8)];
    for (const std::string& piece : split(all, bytes))
      joined += piece;
    EXPECT_EQ(joined, bytes);
  }
}

// Expected values are from tokenizers 0.23.3.
TEST(PreTokenizer, EmptyMatchesSplit) {
  struct Row {
    const char* regex;
    bool invert;
    const char* pieces[5];  // in the order of Behavior
  };
  const Row rows[] = {
      {R"((?=(\d{3})+(?!\d)))",
       false,
       {"xaxx1|234é", "xaxx1|234é", "xaxx1|234é", "xaxx1|234é", "xaxx1|234é"}},
      {R"((?=(\d{3})+(?!\d)))", true, {"xaxx1|234é", "", "xaxx1|234é", "xaxx1|234é", "xaxx1|234é"}},
      {R"((?<=a))", false, {"xa|xx1234é", "xa|xx1234é", "xa|xx1234é", "xa|xx1234é", "xa|xx1234é"}},
      {R"((?<=a))", true, {"xa|xx1234é", "", "xa|xx1234é", "xa|xx1234é", "xa|xx1234é"}},
      {R"(x*)",
       false,
       {"x|a|xx|1|2|3|4|é", "a|1|2|3|4|é", "x|axx|1|2|3|4|é", "xa|xx1|2|3|4|é", "x|a|xx|1|2|3|4|é"}},
      {R"(x*)", true, {"x|a|xx|1|2|3|4|é", "x|xx", "xa|xx1|2|3|4|é", "x|axx|1|2|3|4|é", "x|a|xx|1|2|3|4|é"}},
      {R"()",
       false,
       {"x|a|x|x|1|2|3|4|é", "x|a|x|x|1|2|3|4|é", "x|a|x|x|1|2|3|4|é", "x|a|x|x|1|2|3|4|é",
        "x|a|x|x|1|2|3|4|é"}},
      {R"()", true, {"x|a|x|x|1|2|3|4|é", "", "x|a|x|x|1|2|3|4|é", "x|a|x|x|1|2|3|4|é", "x|a|x|x|1|2|3|4|é"}},
  };
  for (const Row& row : rows) {
    for (size_t i = 0; i < std::size(row.pieces); ++i) {
      const PreTokenizer one({{.kind = SplitStep::Kind::regex,
                               .regex = row.regex,
                               .behavior = static_cast<SplitStep::Behavior>(i),
                               .invert = row.invert}});
      EXPECT_EQ(fmt::format("{}", fmt::join(split(one, "xaxx1234é"), "|")), row.pieces[i])
          << row.regex << " " << row.invert << " " << i;
    }
  }
}

TEST(PreTokenizer, NamesInGgufFiles) {
  for (const char* name : {"starcoder", "falcon", "default", "deepseek-coder", "deepseek-v3"}) {
    const auto steps = steps_of_gguf_name(name);
    EXPECT_EQ(gguf_name_of_steps(PreTokenizer(steps).steps()), name);
  }
  EXPECT_EQ(split(PreTokenizer(steps_of_gguf_name("falcon")), "ab 12345--x"),
            (Pieces{"ab", " ", "123", "45", "--", "x"}));
  EXPECT_TRUE(steps_of_gguf_name("no-such").empty());
  VocabData data = load_tokenizer(test::kTextData + "bpe.tokenizer.json")->vocab_data();
  data.pre = "smollm";
  EXPECT_EQ(tokenizer_of(data, "m.gguf")->vocab_data().pre, "starcoder");  // the same under a different name
}

TEST(Regex, SaysWhatItDoesNotKnow) {
  struct Unknown {
    const char *pattern, *found;
    int at;
  };
  const Unknown unknown[] = {{R"(\w+)", R"("\\w")", 0},
                             {R"(\h)", R"("\\h")", 0},
                             {R"(\X)", R"("\\X")", 0},
                             {R"(\K)", R"("\\K")", 0},
                             {R"(\b)", R"("\\b")", 0},
                             {R"(\1)", R"("\\1")", 0},
                             {R"re((?R))re", R"re("(?R")re", 0},
                             {R"re((?<n>a))re", R"re("(?<")re", 0},
                             {R"re((?m:a))re", R"re("(?m")re", 0},
                             {R"((*LIMIT_MATCH=1)a)", R"("(*L")", 0},
                             {R"(a{1,2}+)", R"("{1,2}+")", 1},
                             {R"(a{2}?)", R"("{2}?")", 1},
                             {R"(a{,3})", R"("{,3}")", 1},
                             {R"(a{x})", R"("{x}")", 1},
                             {R"([[:alpha:]])", R"("[:")", 1},
                             {R"([a&&b])", R"("&&")", 2},
                             {R"([a[^b]])", R"("[^")", 2},
                             {R"([]a])", R"("]a")", 1},
                             {R"([a)", R"("")", 2},
                             {R"(\)", R"("\\")", 0},
                             {R"(\p{Alpha})", R"("\\p{Alpha}")", 0},
                             {R"(\pL)", R"("\\pL")", 0},
                             {R"(\u12)", R"("\\u12")", 0},
                             {R"(\xE9)", R"("\\xE9")", 0},
                             {R"(\C)", R"("\\C")", 0},
                             {R"([[[[[a]]]]])", R"("a")", 5}};
  for (const auto& [pattern, found, at] : unknown)
    EXPECT_TRUE(names(test::error_of([pattern = pattern] { Regex regex{pattern}; }), {found, at})) << pattern;
  for (const char* pattern : {"(", "a)", "*", "(?<=a+)b", "[b-a]"})
    EXPECT_TRUE(names(test::error_of([&] { Regex regex{pattern}; }), {'"' + std::string(pattern) + '"'}));
  expect_message([] { Regex regex{std::string(200, '(') + std::string(200, ')')}; }, "byte 101",
                 {std::string(80, '(')});
  expect_message([] { Regex regex{std::string(20000, 'a')}; }, "20000 bytes", {16384});
  expect_message([] { Regex regex{"\xFF"}; }, "UTF-8", {"byte 0"});
}

TEST(Regex, HasAnEnd) {
  const Regex regex("(?:a|a)*b|(?:a+)+c");
  Regex::Search search(regex);
  const std::string text(1 << 18, 'a');
  search.begin(text);
  expect_message([&] { search.next(); }, "byte 0", {});
}

TEST(PreTokenizer, SaysWhatItCannotRead) {
  const auto expect = [](const Json& json, std::initializer_list<test::Fact> facts) {
    EXPECT_TRUE(test::names(test::error_of([&] { PreTokenizer{read_split_steps(json, "t.json")}; }), facts));
  };
  const Json bytes = {{"type", "ByteLevel"}, {"use_regex", false}};
  const auto sequence = [&](const Json& first) {
    return Json{{"type", "Sequence"}, {"pretokenizers", {first, bytes}}};
  };
  expect(nullptr, {"t.json", "pre_tokenizer"});
  expect({{"type", "Whitespace"}}, {"t.json", "pre_tokenizer", "Whitespace"});
  expect(bytes, {"t.json", "pre_tokenizer"});
  expect({{"type", "Digits"}}, {"t.json", "pre_tokenizer", "ByteLevel"});
  expect({{"type", "Sequence"}}, {"t.json", "pre_tokenizer", "Sequence"});
  expect(sequence(bytes), {"t.json", "pre_tokenizer", "ByteLevel"});
  expect(sequence({{"type", "Split"}, {"pattern", 3}, {"behavior", "Isolated"}}),
         {"t.json", "Split", "Regex", "String"});
  expect(sequence({{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Odd"}}),
         {"t.json", "Odd"});
  expect(sequence({{"type", "UnicodeScripts"}}), {"t.json", "UnicodeScripts"});
  expect({{"type", "ByteLevel"}, {"add_prefix_space", true}}, {"t.json", "add_prefix_space"});
  Json many = {{"type", "Sequence"}, {"pretokenizers", Json::array()}};
  for (int i = 0; i < 17; ++i)
    many["pretokenizers"].push_back({{"type", "Digits"}});
  many["pretokenizers"].push_back(bytes);
  expect(many, {17, 16});
}

}  // namespace
}  // namespace gpt::detail
