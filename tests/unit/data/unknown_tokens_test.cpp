#include "data/unknown_tokens.h"

#include <gtest/gtest.h>

#include "data/token_data.h"
#include "support/names.h"

namespace gpt {
namespace {

using test::names;

const std::string kTokenizers = GPT_SOURCE_DIR "/tests/data/";

std::unique_ptr<Tokenizer> by_words() {
  return load_tokenizer(kTokenizers + "gpt1.tokenizer.json");
}

TEST(UnknownTokens, AreCountedAndNamed) {
  const auto tokenizer = by_words();
  UnknownTokens unknown(*tokenizer);
  EXPECT_EQ(unknown.note(), "");
  unknown.add(tokenizer->encode("hello"));
  EXPECT_EQ(unknown.note(), "") << "all characters are known";
  const int64_t known = unknown.tokens();
  const std::vector<int32_t> ids = tokenizer->encode("\u4e16 \u754c");
  unknown.add(ids);
  EXPECT_EQ(unknown.unknown(), 2);
  EXPECT_EQ(unknown.tokens(), known + std::ssize(ids));
  EXPECT_TRUE(names(unknown.note(), {2, unknown.tokens(), "<unk>", "%"}));
}

TEST(UnknownTokens, OfEncodedText) {
  const auto tokenizer = by_words();
  TokenData data(*tokenizer);
  for (int i = 0; i < 3000; ++i)  // more than one copy operation handles
    data.append(tokenizer->encode("\u4e16 a"));
  UnknownTokens unknown(*tokenizer);
  unknown.add(TokenSpan(data));
  EXPECT_EQ(unknown.unknown(), 3000);
  EXPECT_EQ(unknown.tokens(), data.size());
}

TEST(UnknownTokens, OfAByteLevelVocabularyWithGaps) {
  const auto tokenizer = parse_tokenizer(
      R"({"model": {"type": "BPE", "vocab": {"<unk>": 0, "a": 1}, "merges": [], "unk_token": "<unk>"},
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"}})",
      "test");
  UnknownTokens unknown(*tokenizer);
  unknown.add(tokenizer->encode("abba"));
  EXPECT_EQ(unknown.unknown(), 2);
}

TEST(UnknownTokens, NothingIsCountedWhereEveryByteHasAToken) {
  const auto tokenizer = make_byte_tokenizer();
  UnknownTokens unknown(*tokenizer);
  unknown.add(tokenizer->encode("\u4e16"));
  EXPECT_EQ(unknown.tokens(), 0);
  EXPECT_EQ(unknown.note(), "");
}

}  // namespace
}  // namespace gpt
