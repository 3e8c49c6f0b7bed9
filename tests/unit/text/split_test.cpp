#include "text/split.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/rng.h"
#include "text/unicode.h"

namespace gpt {
namespace {

using Pieces = std::vector<std::string>;

constexpr SplitPattern kPatterns[] = {SplitPattern::gpt2,     SplitPattern::cl100k, SplitPattern::llama3,
                                      SplitPattern::nanochat, SplitPattern::qwen2,  SplitPattern::o200k};

Pieces split(SplitPattern pattern, const std::string& text) {
  Pieces pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t end = split_end(pattern, text, at);
    if (end <= at || end > text.size()) {
      ADD_FAILURE() << "a piece from " << at << " to " << end << " of " << text.size();
      return pieces;
    }
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

// The expected pieces are from the original regular expression engines (scripts/golden/make_text.py).
TEST(Split, AgreesWithTheRegularExpressions) {
  const std::map<std::string, SplitPattern> names = {
      {"gpt2", SplitPattern::gpt2},     {"cl100k", SplitPattern::cl100k},
      {"llama3", SplitPattern::llama3}, {"nanochat", SplitPattern::nanochat},
      {"qwen2", SplitPattern::qwen2},   {"o200k", SplitPattern::o200k}};
  std::ifstream file(GPT_SOURCE_DIR "/tests/data/split.jsonl");
  int compared = 0;
  for (std::string line; std::getline(file, line); ++compared) {
    const auto row = nlohmann::json::parse(line);
    const Pieces pieces = row["pieces"];
    std::string text;
    for (const std::string& piece : pieces)
      text += piece;
    EXPECT_EQ(split(names.at(row["pattern"]), text), pieces) << line;
  }
  EXPECT_EQ(compared, 360);
}

TEST(Split, KnowsItsOwnRegularExpressions) {
  for (const SplitPattern pattern : kPatterns)
    EXPECT_EQ(find_split_pattern(split_regex(pattern)), pattern);
  EXPECT_EQ(find_split_pattern(R"(\S+)"), std::nullopt);
  // {1,3}+ is a possessive repetition in tiktoken, but not in a tokenizer.json.
  for (const SplitPattern pattern : kPatterns)
    EXPECT_EQ(split_regex(pattern).find("3}+"), std::string_view::npos);
}

TEST(Split, AnyBytesAreCovered) {
  RandomStream random(3, RandomSite::test);
  for (int round = 0; round < 300; ++round) {
    std::string bytes(1 + random.below(60), '\0');
    for (char& c : bytes)
      c = random.below(4) == 0 ? static_cast<char>(random.below(256)) : "' \nsA1\xC3\xA9"[random.below(8)];
    for (const SplitPattern pattern : kPatterns) {
      std::string joined;
      for (const std::string& piece : split(pattern, bytes))
        joined += piece;
      EXPECT_EQ(joined, bytes);
    }
  }
}

// Recursion or a second pass over the characters would fail or be too slow for such texts.
TEST(Split, LongRunsAreOnePiece) {
  for (const char* unit : {"a", " ", "\n", "!", "\xE4\xB8\xAD"}) {
    std::string text;
    while (text.size() < 1 << 20)
      text += unit;
    for (const SplitPattern pattern : kPatterns)
      EXPECT_EQ(split(pattern, text).size(), 1u) << unit;
  }
}

TEST(Unicode, IsOfVersion16) {
  EXPECT_EQ(category(0x105C0), Category::Lo);  // Todhri, new in 16.0
  EXPECT_EQ(category(0xA7CE), Category::Cn);   // new in 17.0
  EXPECT_EQ(category('A'), Category::Lu);
  EXPECT_EQ(category(0x10FFFF), Category::Cn);
  EXPECT_EQ(category(0x110000), Category::Cn);
  int letters = 0, spaces = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    letters += is_letter(category(c));
    spaces += is_white_space(c);
  }
  EXPECT_EQ(letters, 2258 + 404 + 136477 + 31 + 1858);
  EXPECT_EQ(spaces, 25);
}

}  // namespace
}  // namespace gpt
