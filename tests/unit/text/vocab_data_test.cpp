#include "text/vocab_data.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "text/byte_level.h"
#include "unit/text/golden_rows.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;
const std::string kData = GPT_SOURCE_DIR "/tests/data/";

VocabData small() {
  return load_tokenizer(kData + "bpe.tokenizer.json")->vocab_data();
}

void expect_error(const std::function<void(VocabData&)>& change, std::initializer_list<test::Fact> facts) {
  VocabData data = small();
  change(data);
  test::expect_message([&] { tokenizer_of(data, "m.gguf"); }, "m.gguf", facts);
}

TEST(VocabData, ByteLevelThereAndBack) {
  const auto tokenizer = load_tokenizer(kData + "bpe.tokenizer.json");
  VocabData data = tokenizer->vocab_data();
  EXPECT_EQ(data.model, "gpt2");
  EXPECT_EQ(data.pre, "llama-bpe");
  EXPECT_EQ(data.tokens.size(), 420u);
  data.special = {.bos = 0, .eos = 1, .add_bos = true};
  const auto again = tokenizer_of(data, "m.gguf");
  EXPECT_EQ(again->special_ids().eos, 1);
  EXPECT_EQ(again->special_ids().add_bos, true);
  for (const char* text : {"", "Hello,  world!\n\nthe the<|end|>", "caf\xC3\xA9 \xFF"}) {
    EXPECT_EQ(again->encode(text), tokenizer->encode(text));
    EXPECT_EQ(again->encode_special(text), tokenizer->encode_special(text));
  }
  const VocabData twice = again->vocab_data();
  EXPECT_EQ(twice.tokens, data.tokens);
  EXPECT_EQ(twice.types, data.types);
  EXPECT_EQ(twice.merges, data.merges);
}

TEST(VocabData, HolesBecomeUnusedTokens) {
  VocabData data = small();
  data.tokens.emplace_back("[PAD420]");
  data.types.push_back(static_cast<int32_t>(VocabData::TokenType::unused));
  data.tokens.emplace_back("<|late|>");
  data.types.push_back(static_cast<int32_t>(VocabData::TokenType::control));
  const auto tokenizer = tokenizer_of(data, "m.gguf");
  EXPECT_EQ(tokenizer->vocab_size(), 422);
  EXPECT_EQ(tokenizer->encode_special("<|late|>"), Ids{421});
  EXPECT_GT(tokenizer->encode_special("[PAD420]").size(), 1u);
  EXPECT_EQ(tokenizer->vocab_data().tokens, data.tokens);
}

TEST(VocabData, UserDefinedTokensAreAlwaysFound) {
  VocabData data = small();
  data.tokens.emplace_back("<tool>");
  data.types.push_back(static_cast<int32_t>(VocabData::TokenType::user_defined));
  EXPECT_EQ(tokenizer_of(data, "m.gguf")->encode("<tool>"), Ids{420});
}

TEST(VocabData, RefusesWhatItCannotRead) {
  expect_error([](VocabData& d) { d.model = "bert"; },
               {"tokenizer.ggml.model", "bert", "gpt2", "llama", "rwkv"});
  expect_error([](VocabData& d) { d.pre = "qwen3"; },
               {"tokenizer.ggml.pre", "qwen3", "qwen2", "gpt-2", "smollm", "minerva-7b"});
  expect_error([](VocabData& d) { d.tokens.clear(); }, {1, 0});
  expect_error([](VocabData& d) { d.types.pop_back(); }, {420, 419});
  expect_error([](VocabData& d) { d.scores.resize(3); }, {420, 3});
  expect_error([](VocabData& d) { d.types[7] = 0; }, {7, 0, 1, 6});
  expect_error([](VocabData& d) { d.types[7] = 1 << 30; }, {7, 1 << 30, 1, 6});
  expect_error([](VocabData& d) { d.special.eos = 420; }, {"EOS", 420, 419});
  expect_error([](VocabData& d) { d.special.bos = -2; }, {"BOS", -2, 419});
  expect_error([](VocabData& d) { d.special.unk = int64_t{1} << 40; }, {int64_t{1} << 40, 419});
  expect_error(
      [](VocabData& d) {
        d.tokens.push_back(d.tokens[301]);
        d.types.push_back(1);
      },
      {301, 420});
  expect_error([](VocabData& d) { d.tokens[300] = ""; }, {300, "\"\""});
  expect_error([](VocabData& d) { d.tokens[300] = "\xE4\xB8\xAD"; }, {300, "\xE4\xB8\xAD"});
  expect_error([](VocabData& d) { d.tokens[0] = ""; }, {0});
  expect_error([](VocabData& d) { d.tokens[0] = std::string(5000, 'x'); }, {0, 5000});
  expect_error([](VocabData& d) { d.merges.emplace_back("q zzzz"); }, {"zzzz"});
  expect_error([](VocabData& d) { d.merges.emplace_back("q"); }, {162, "\"q\""});
  expect_error([](VocabData& d) { d.merges.emplace_back("q  q"); }, {162, "\"q  q\""});
  expect_error([](VocabData& d) { d.merges.emplace_back(" "); }, {"\"\""});
  const auto gpt1 = load_tokenizer(GPT_SOURCE_DIR "/tests/data/gpt1.tokenizer.json");
  EXPECT_THROW(gpt1->vocab_data(), Error);
}

}  // namespace
}  // namespace gpt
