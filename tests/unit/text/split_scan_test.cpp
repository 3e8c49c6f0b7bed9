#include "text/split_scan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "base/utf8.h"

namespace gpt {
namespace {

constexpr SplitPattern kPatterns[] = {SplitPattern::gpt2,     SplitPattern::cl100k, SplitPattern::llama3,
                                      SplitPattern::nanochat, SplitPattern::qwen2,  SplitPattern::o200k};

void expect_windows_agree(const std::string& text) {
  for (const SplitPattern pattern : kPatterns) {
    if (testing::Test::HasFailure()) return;
    size_t at = 0;
    detail::split_all(pattern, text, [&](std::string_view piece) {
      ASSERT_EQ(piece.data(), text.data() + at);
      const std::string expected = text.substr(at, split_end(pattern, text, at) - at);
      ASSERT_EQ(printable_text(piece, 300), printable_text(expected, 300))
          << static_cast<int>(pattern) << " at byte " << at << " of " << printable_text(text, 300);
      at += piece.size();
    });
    ASSERT_EQ(at, text.size());
  }
}

// Returns a random sequence of words that are relevant for the split patterns.
std::string mixture(RandomStream& random, const std::vector<std::string>& words, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += words[random.below(words.size())];
  return text;
}

TEST(SplitScan, CharactersAreThoseOfUtf8) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      for (const int third : {0x00, 0x7F, 0x80, 0xBF, 0xC0, 0xFF}) {
        for (const size_t size : {3u, 5u}) {
          const std::string bytes = {static_cast<char>(first), static_cast<char>(second),
                                     static_cast<char>(third), '\x80', 'a'};
          const std::string text = bytes.substr(0, size);
          const Utf8Char c = decode_utf8(text, 0);
          const bool valid = c.status == Utf8Status::valid;
          const detail::SplitText::Char found = detail::SplitText(text).at(0);
          ASSERT_EQ(found.length, valid ? c.length : 1) << first << " " << second << " " << third;
          ASSERT_EQ(found.bits, valid ? detail::char_classes()[c.code] : 0)
              << first << " " << second << " " << third;
        }
      }
    }
  }
}

TEST(SplitScan, WindowsAgreeWithPiecesOfAscii) {
  RandomStream random(7, RandomSite::test);
  const std::vector<std::string> few = {"a", "A", "1", " ", "\n", "\t",  "\r",
                                        "'", "/", ".", "s", "ll", "'re", "'S"};
  const std::vector<std::string> usual = {"word", " word", "'s", "'LL ", " ",   "    ", "\n",
                                          "\n\n", "\r\n",  "\t", "1234", "12",  ";\n",  "//",
                                          "/",    "...",   " (", "aB",   "ABc", " 's"};
  for (int round = 0; round < 20000; ++round) {
    expect_windows_agree(mixture(random, few, 1 + random.below(100)));
    expect_windows_agree(mixture(random, usual, 1 + random.below(60)));
  }
}

// Covers letters of all cases, marks, numbers, white space, a long s, unassigned characters and parts of
// characters.
TEST(SplitScan, WindowsAgreeWithPiecesBeyondAscii) {
  RandomStream random(8, RandomSite::test);
  const std::vector<std::string> words = {
      "a",      "B",      " ",          "'",          "1",        "\n",     ".",      "/",
      "s",      "word ",  "\u00E9",     "\u00C9",     "\u4E2D",   "\u02B0", "\u01C5", "\u0301",
      "\u0661", "\u00A0", "\u3000",     "'\u017F",    "\u201C",   "\u2019", "\u0416", "\u0436",
      "\u00BD", "\u2028", "\U0001F600", "\U00010400", "\xE4\xB8", "\xFF"};
  for (int round = 0; round < 20000; ++round) {
    expect_windows_agree(mixture(random, words, 1 + random.below(50)));
    expect_windows_agree("plain words of ASCII, 12345 of them; " +
                         mixture(random, words, 1 + random.below(8)) + " and\n  more of it's kind.");
  }
}

TEST(SplitScan, WindowsAgreeWithPiecesOfAnyBytes) {
  RandomStream random(9, RandomSite::test);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(1 + random.below(150), '\0');
    for (char& c : bytes)
      c = random.below(3) == 0 ? static_cast<char>(random.below(256))
                               : " \t\n'saL1/.\xC3\xA9"[random.below(13)];
    expect_windows_agree(bytes);
  }
}

}  // namespace
}  // namespace gpt
