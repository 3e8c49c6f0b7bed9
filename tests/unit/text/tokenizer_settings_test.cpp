// Tests the settings in tokenizer.json. Each setting either has the same meaning as in Hugging Face
// tokenizers, or is refused.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/thread_pool.h"
#include "support/error_of.h"
#include "text/bpe_trainer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_trainer.h"
#include "text/vocab_data.h"
#include "text/word_counts.h"
#include "unit/text/golden_rows.h"

namespace gpt {
namespace {

using nlohmann::json;
using test::error_of;
using test::Fact;

json bpe_json() {
  return json::parse(read_file(GPT_SOURCE_DIR "/tests/data/bpe.tokenizer.json", 1 << 20));
}

void expect_refused(const json& root, std::initializer_list<Fact> facts) {
  test::expect_message([&] { parse_tokenizer(root.dump(), "t.json"); }, "t.json", facts);
}

json token(const std::string& text, int64_t id) {
  return {{"id", id}, {"content", text}, {"special", false}};
}

TEST(TokenizerSettings, OfEveryKindThatChangeTextsAreRefused) {
  const json kinds[] = {bpe_json(), json::parse(make_byte_tokenizer()->to_json()),
                        json::parse(make_char_tokenizer("abc")->to_json())};
  for (const json& good : kinds) {
    const auto expect = [&](const char* key, const json& value, std::initializer_list<Fact> facts) {
      json root = good;
      root[key] = value;
      expect_refused(root, facts);
    };
    EXPECT_EQ(error_of([&] { parse_tokenizer(good.dump(), "t.json"); }), "no error");
    expect("truncation", true, {"truncation"});
    expect("padding", 3, {"padding"});
    expect("version", "2.0", {"version", "1.0"});
    expect("extra", 1, {"extra"});
    expect("post_processor", {{"type", "Nonsense"}}, {"post_processor"});
    expect("post_processor", "ByteLevel", {"post_processor"});
  }
}

TEST(TokenizerSettings, ASequenceOfOneStepIsThatStep) {
  json root = bpe_json();
  root["normalizer"] = {{"type", "NFC"}};
  const std::string same = parse_tokenizer(root.dump(), "t.json")->to_json();
  const auto sequence = [](const char* list, const json& step) {
    return json{{"type", "Sequence"}, {list, json::array({step})}};
  };
  root["normalizer"] = sequence("normalizers", sequence("normalizers", root["normalizer"]));
  root["decoder"] = sequence("decoders", root["decoder"]);
  EXPECT_EQ(parse_tokenizer(root.dump(), "t.json")->to_json(), same);
  root["normalizer"]["normalizers"] = json::array({{{"type", "NFD"}}, {{"type", "StripAccents"}}});
  expect_refused(root, {"normalizer", "NFD", "StripAccents"});
}

TEST(TokenizerSettings, BytesMayHaveAddedTokens) {
  json root = json::parse(make_byte_tokenizer()->to_json());
  root["added_tokens"] = json::array({{{"id", 256}, {"content", "<|end|>"}, {"special", true}}});
  const auto tokenizer = parse_tokenizer(root.dump(), "t.json");
  EXPECT_EQ(tokenizer->encode_special("a b<|end|>"), (std::vector<int32_t>{97, 32, 98, 256}));
  EXPECT_EQ(parse_tokenizer(tokenizer->to_json(), "again")->encode_special("a<|end|>"),
            (std::vector<int32_t>{97, 256}));
}

// These settings are ignored like in transformers, which sets both for each call.
TEST(TokenizerSettings, OfTheCallThatSavedTheFileChangeNothing) {
  json root = bpe_json();
  const std::vector<int32_t> ids = parse_tokenizer(root.dump(), "t.json")->encode("a longer text");
  root["truncation"] = {
      {"direction", "Right"}, {"max_length", 1}, {"strategy", "LongestFirst"}, {"stride", 0}};
  root["padding"] = {{"strategy", {{"Fixed", 64}}}, {"direction", "Right"}, {"pad_id", 0}};
  EXPECT_EQ(parse_tokenizer(root.dump(), "t.json")->encode("a longer text"), ids);
}

TEST(TokenizerSettings, TokensAroundATextAreKept) {
  json root = bpe_json();
  const json around = {{"type", "TemplateProcessing"},
                       {"single",
                        {{{"SpecialToken", {{"id", "<|bos|>"}, {"type_id", 0}}}},
                         {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                         {{"SpecialToken", {{"id", "<|end|>"}, {"type_id", 0}}}}}},
                       {"pair", json::array()},
                       {"special_tokens",
                        {{"<|bos|>", {{"id", "<|bos|>"}, {"ids", {0}}, {"tokens", {"<|bos|>"}}}},
                         {"<|end|>", {{"id", "<|end|>"}, {"ids", {1}}, {"tokens", {"<|end|>"}}}}}}};
  const json offsets = {{"type", "ByteLevel"}, {"trim_offsets", false}};
  const json processors[] = {
      around,
      {{"type", "Sequence"}, {"processors", {offsets, around}}},
      {{"type", "RobertaProcessing"}, {"cls", {"<|bos|>", 0}}, {"sep", {"<|end|>", 1}}}};
  for (const json& processor : processors) {
    root["post_processor"] = processor;
    auto tokenizer = parse_tokenizer(root.dump(), "t.json");
    for (int round = 0; round < 2; ++round) {
      const SpecialIds ids = tokenizer->special_ids();
      EXPECT_EQ(ids.bos, 0);
      EXPECT_EQ(ids.eos, 1);
      EXPECT_EQ(ids.add_bos, true);
      EXPECT_EQ(ids.add_eos, true);
      EXPECT_NE(tokenizer->encode("a").front(), 0) << "encode adds none";
      tokenizer = parse_tokenizer(tokenizer->to_json(), "again");
    }
    EXPECT_EQ(json::parse(tokenizer->to_json())["post_processor"]["type"], "TemplateProcessing");
  }
  root["post_processor"] = {{"type", "Sequence"}, {"processors", {around, around}}};
  expect_refused(root, {"post_processor"});
  root["post_processor"] = offsets;
  EXPECT_TRUE(json::parse(parse_tokenizer(root.dump(), "t")->to_json())["post_processor"].is_null());
  json bytes = json::parse(make_byte_tokenizer()->to_json());
  bytes["post_processor"] = around;
  expect_refused(bytes, {"post_processor"});
}

// Hugging Face tokenizers ignores the ids in the file. That library uses the id in the vocabulary or the next
// free id.
TEST(TokenizerSettings, AddedTokensHaveTheIdsThatTokenizersGives) {
  const json good = bpe_json();
  const auto size = static_cast<int64_t>(good["model"]["vocab"].size());
  const int64_t known = good["model"]["vocab"]["hat"];
  const auto with = [&](std::initializer_list<json> tokens) {
    json root = good;
    for (const json& t : tokens)
      root["added_tokens"].push_back(t);
    return root;
  };
  const auto encode = [](const json& root, const char* text) {
    return parse_tokenizer(root.dump(), "t")->encode(text);
  };
  EXPECT_EQ(encode(with({token("<new>", size), token("<b>", size + 1)}), "<b><new>").size(), 2u);
  EXPECT_EQ(encode(with({token("hat", known)}), "xhat").back(), known);
  expect_refused(with({token("hat", size)}), {"hat", 420, known});
  expect_refused(with({token("<new>", size + 9)}), {"<new>", 429, 420});
  expect_refused(with({token("<b>", size + 1), token("<new>", size)}), {"<b>", 421, 420});
  expect_refused(with({token("<new>", size), token("<new>", size + 1)}), {"<new>"});
}

// Ids without a token precede an added token, so the file must contain its id.
TEST(TokenizerSettings, HolesBeforeAddedTokensStay) {
  VocabData data = make_byte_tokenizer()->vocab_data();
  for (const auto& [text, type] : {std::pair{"[PAD256]", VocabData::TokenType::unused},
                                   {"<|end|>", VocabData::TokenType::control},
                                   {"\xE6\xBC\xA2", VocabData::TokenType::user_defined}}) {
    data.tokens.emplace_back(text);
    data.types.push_back(static_cast<int32_t>(type));
  }
  const auto tokenizer = tokenizer_of(data, "m.gguf");
  const std::string text = "a<|end|>\xE6\xBC\xA2";
  const std::vector<int32_t> ids = {'a', 257, 258};
  EXPECT_EQ(tokenizer->encode_special(text), ids);
  EXPECT_EQ(parse_tokenizer(tokenizer->to_json(), "again")->encode_special(text), ids);
}

TEST(TokenizerSettings, NoTokenIsLongerThanFilesMayHave) {
  ThreadPool pool(1);
  WordCounter counter(piece_splitter(SplitPattern::gpt2), pool, {});
  counter.add(std::string(1 << 20, 'a'));
  counter.end_document();
  counter.finish();
  const TrainedTokenizer trained = train_byte_level_bpe(counter, {.vocab_size = 300}, {});
  const auto tokenizer = parse_tokenizer(trained.json, "t.json");
  size_t longest = 0;
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id)
    longest = std::max(longest, tokenizer->token_bytes(id).size());
  EXPECT_EQ(longest, kMaxTokenBytes);
  EXPECT_LT(trained.json.size(), size_t{1} << 20);
}

}  // namespace
}  // namespace gpt
