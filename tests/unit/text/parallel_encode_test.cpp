#include "text/parallel_encode.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "unit/text/golden_rows.h"

namespace gpt {
namespace {

using test::kTextData;

// Returns text with words, white space and unusual characters. The text has spaces in all places where a cut
// could be wrong.
std::string long_text() {
  constexpr const char* kUnits[] = {" ",    "  ", "the",          "king",   "'s",   " 's",          ".",
                                    "(",    "\n", "12",           "\t ",    "\r\n", "\xC2\xA0",     "?",
                                    "A",    "é",  "\xE4\xB8\xAD", "<tool>", "-- ",  "\xE2\x96\x81", "x",
                                    "\xFF", "/"};
  RandomStream random(11, RandomSite::test);
  std::string text;
  while (text.size() < 1500000)
    text += kUnits[random.below(std::size(kUnits))];
  return text;
}

TEST(ParallelEncode, AnyNumberOfThreadsGivesTheSameIds) {
  const std::string text = long_text();
  for (const char* file :
       {"bpe.tokenizer.json", "spm.model", "ranks.nanochat.tiktoken", "gpt1.tokenizer.json"}) {
    const auto tokenizer = load_tokenizer(kTextData + file);
    const std::vector<int32_t> ids = tokenizer->encode(text);
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      EXPECT_EQ(tokenizer->encode_parallel(text, pool), ids) << file;
      EXPECT_TRUE(tokenizer->encode_parallel("", pool).empty());
    }
  }
}

TEST(ParallelEncode, ManyTexts) {
  const auto tokenizer = load_tokenizer(kTextData + "spm.model");
  const std::string text = long_text();
  std::vector<std::string_view> texts;
  for (size_t at = 0; at < 200000; at += 1 + at % 911)
    texts.push_back(std::string_view(text).substr(at, at % 2003));
  ThreadPool pool(2);
  const auto all = encode_all(*tokenizer, texts, pool);
  ASSERT_EQ(all.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(all[i], tokenizer->encode(texts[i]));
}

// Cached pieces of earlier texts must not change the result.
TEST(ParallelEncode, TheTextsBeforeDoNotMatter) {
  RandomStream random(12, RandomSite::test);
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) {  // pieces of all lengths, from few letters, with repetitions
    std::string text;
    while (text.size() < 600) {
      text.append(1 + random.below(i % 3 == 0 ? 70 : 9), "ab-=0 "[random.below(6)]);
      text += random.below(3) == 0 ? "the king's \xE4\xB8\xAD\n" : " ";
    }
    texts.push_back(text);
  }
  for (const char* file : {"bpe.tokenizer.json", "spm.model", "ranks.nanochat.tiktoken"}) {
    const auto knows = load_tokenizer(kTextData + file);
    ThreadPool pool(3);
    for (int round = 0; round < 2; ++round) {
      const auto all = encode_all(*knows, std::vector<std::string_view>(texts.begin(), texts.end()), pool);
      for (size_t i = 0; i < texts.size(); i += 7)
        EXPECT_EQ(all[i], load_tokenizer(kTextData + file)->encode(texts[i])) << file;
    }
  }
}

TEST(ParallelEncode, TheFirstErrorCounts) {
  const auto tokenizer = make_char_tokenizer("ab");
  const std::string_view texts[] = {"a", "ax", "ay", "b"};
  ThreadPool pool(2);
  test::expect_message([&] { encode_all(*tokenizer, texts, pool); }, "'x'", {"byte 1"});
}

}  // namespace
}  // namespace gpt
