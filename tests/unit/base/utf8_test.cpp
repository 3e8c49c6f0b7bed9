#include "base/utf8.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace gpt {
namespace {

std::string random_bytes(uint64_t index, size_t size) {
  RandomStream stream(7, RandomSite::test, 0, index);
  // Lead and continuation bytes are frequent, so that almost valid characters occur.
  const std::string_view pool = "a\xC3\xE2\xF0\x9F\x98\x80\xBF\xED\xA0\xF4\x90\xE0\x80\xC0\xFF";
  std::string out;
  for (size_t i = 0; i < size; ++i) {
    out += stream.below(4) == 0 ? static_cast<char>(stream.below(256)) : pool[stream.below(pool.size())];
  }
  return out;
}

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code == 0xD800) code = 0xE000;
    std::string text;
    append_utf8(text, code);
    const Utf8Char c = decode_utf8(text, 0);
    ASSERT_EQ(c.status, Utf8Status::valid);
    ASSERT_EQ(c.code, code);
    ASSERT_EQ(static_cast<size_t>(c.length), text.size());
  }
}

// Expected values are those of Python's bytes.decode("utf-8", errors="replace").
TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(replace_invalid_utf8("abc"), "abc");
  EXPECT_EQ(replace_invalid_utf8("\x80"), r);
  EXPECT_EQ(replace_invalid_utf8("\xC0\x80"), r + r);                  // overlong
  EXPECT_EQ(replace_invalid_utf8("\xE0\x80\x80"), r + r + r);          // overlong
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), r + r + r);          // surrogate
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), r + r + r + r);  // above U+10FFFF
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98"), r);                  // truncated at the end
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98x"), r + "x");           // truncated before another character
  EXPECT_EQ(replace_invalid_utf8("\xE2\x82\xE2\x82\xAC"), r + "\xE2\x82\xAC");
  // The example in table 3-8 of the Unicode standard.
  EXPECT_EQ(replace_invalid_utf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(first_invalid_utf8("gr\xC3\xBC\xC3\x9F"), std::nullopt);
  EXPECT_EQ(first_invalid_utf8("gr\xC3\xBC\xFF"), 4);
  EXPECT_EQ(first_invalid_utf8("ab\xC3"), 2);
  EXPECT_EQ(first_invalid_utf8(""), std::nullopt);
}

TEST(Utf8, PrintableTextIsOneLine) {
  EXPECT_EQ(printable_text("a\nb\tc\r\x1b[\\\xFF", 100), "a\\nb\\tc\\r\\x1b[\\\\\xEF\xBF\xBD");
  EXPECT_EQ(printable_text("\xC3\xA4\xC3\xB6\xC3\xBC", 2), "\xC3\xA4\xC3\xB6");
}

TEST(Utf8Stream, HandsOutACharacterWithItsLastByte) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("x\xF0\x9F"), "x");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80y"), "\xF0\x9F\x98\x80y");
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, AnyCutsGiveTheSameTextAndOnlyValidPieces) {
  for (uint64_t round = 0; round < 2000; ++round) {
    const std::string bytes = random_bytes(round, round % 40);
    RandomStream cuts(8, RandomSite::test, 0, round);
    Utf8Stream stream;
    std::string joined;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = 1 + cuts.below(4);
      const std::string piece = stream.push(std::string_view(bytes).substr(at, n));
      ASSERT_EQ(first_invalid_utf8(piece), std::nullopt);
      joined += piece;
      at += n;
      // The stream may hold back at most three bytes, which is one incomplete character.
      const size_t arrived = std::min(at, bytes.size());
      const std::string whole = replace_invalid_utf8(bytes.substr(0, arrived));
      ASSERT_LE(whole.size(), joined.size() + 3);
    }
    joined += stream.flush();
    ASSERT_EQ(joined, replace_invalid_utf8(bytes));
  }
}

}  // namespace
}  // namespace gpt
