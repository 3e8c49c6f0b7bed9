#include <gtest/gtest.h>

#include <algorithm>

#include "base/utf8.h"
#include "support/temp_dir.h"
#include "text/gpt1_tokenizer.h"
#include "unit/text/golden_rows.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::json;
using test::expect_message;
using test::expect_rows;
using test::Fact;
using test::kTextData;

const std::string kFile = kTextData + "gpt1.tokenizer.json";

Json read_json(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// The expected ids are from Hugging Face tokenizers (scripts/golden/make_tokenizers.py).
TEST(Gpt1, GivesTheIdsOfTokenizers) {
  const auto tokenizer = load_tokenizer(kFile);
  EXPECT_EQ(tokenizer->kind(), "gpt1");
  expect_rows(*tokenizer, kTextData + "gpt1.jsonl", 81);
  expect_rows(*parse_tokenizer(tokenizer->to_json(), "again"), kTextData + "gpt1.jsonl", 81);
}

// Compares a hash (FNV-1a) of the words that result from each character between two letters. The expected
// hash is from tokenizers 0.23.3, which scripts/make-gpt1-table called for each character. A different
// version of utf8proc must not change it.
TEST(Gpt1, TakesEveryCharacterAsTokenizersDoes) {
  uint64_t hash = 0xCBF29CE484222325;
  const auto add = [&](char32_t code) { hash = (hash ^ code) * 0x100000001B3; };
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text = "a";
    append_utf8(text, code);
    for (const std::u32string& word : detail::gpt1_words(text + "b")) {
      std::ranges::for_each(word, add);
      add(' ');
    }
    add('\n');
  }
  EXPECT_EQ(hash, 0x3CAFE55D4CD5112B);
}

// The published files only contain tokens and merges. The suffix </w> distinguishes them from GPT-2 files.
TEST(Gpt1, VocabAndMerges) {
  const Json json = read_json(kFile);
  const test::TempDir folder;
  test::write_plain_file(folder.file("vocab.json"), json["model"]["vocab"].dump());
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : json["model"]["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  test::write_plain_file(folder.file("merges.txt"), merges);
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->kind(), "gpt1");
  expect_rows(*tokenizer, kTextData + "gpt1.jsonl", 81);
}

TEST(Gpt1, Goldens) {
  const std::string rows = test::reference_path("tokenizers/gpt1.jsonl");
  GPT_SKIP_WITHOUT(rows);
  const auto tokenizer = load_tokenizer(test::reference_path("../data/tokenizers/gpt1"));
  EXPECT_EQ(tokenizer->vocab_size(), 40478);
  expect_rows(*tokenizer, rows, 246);
}

TEST(Gpt1, WordsAreCleanedAndSmall) {
  const auto tokenizer = load_tokenizer(kFile);
  const auto round_trip = [&](const char* text) { return tokenizer->decode(tokenizer->encode(text)); };
  EXPECT_EQ(round_trip("  The\n KING\t's "), "the king ' s");
  EXPECT_EQ(round_trip("a\xC3\x89\xCC\x81\xC2\xADs"), "aes");  // capital E with acute, acute, soft hyphen
  EXPECT_EQ(round_trip("\xFF"
                       "a"),
            "a");  // not a character
  EXPECT_EQ(tokenizer->encode("\xE4\xB8\xAD\xE6\x96\x87"), (Ids{0, 0}));
  EXPECT_EQ(tokenizer->encode_special("<unk>"), Ids{0});
  EXPECT_GT(tokenizer->encode("<unk>").size(), 1u);
  EXPECT_EQ(tokenizer->encode(" \n "), Ids{});
}

TEST(Gpt1, SaysWhatItCannotRead) {
  const Json good = read_json(kFile);
  const auto expect = [&](const std::function<void(Json&)>& change, std::initializer_list<Fact> facts) {
    Json bad = good;
    change(bad);
    expect_message([&] { parse_tokenizer(bad.dump(), "t.json"); }, "t.json", facts);
  };
  expect([](Json& j) { j["normalizer"] = nullptr; }, {"BertNormalizer"});
  expect([](Json& j) { j["normalizer"]["lowercase"] = false; }, {"BertNormalizer"});
  expect([](Json& j) { j["normalizer"]["strip_accents"] = false; }, {"BertNormalizer"});
  expect([](Json& j) { j["pre_tokenizer"] = {{"type", "Whitespace"}}; }, {"BertPreTokenizer"});
  expect([](Json& j) { j["decoder"] = nullptr; }, {"BPEDecoder"});
  expect([](Json& j) { j["model"]["fuse_unk"] = true; }, {"fuse_unk"});
  expect([](Json& j) { j["model"]["unk_token"] = "nosuch"; }, {"unk_token", "nosuch"});
  expect([](Json& j) { j["model"]["vocab"]["x"] = 5; }, {5});
  expect([](Json& j) { j["model"]["vocab"][""] = 500; }, {500});
  expect([](Json& j) { j["model"]["vocab"]["far"] = -1; }, {"far", -1});
  expect([](Json& j) { j["model"]["merges"].push_back({"nosuch", "x"}); }, {"nosuch"});
  expect([](Json& j) { j["added_tokens"][0]["id"] = 7; }, {7, 0});
  Json silent = good;
  silent["model"]["unk_token"] = nullptr;
  const auto tokenizer = parse_tokenizer(silent.dump(), "t.json");
  expect_message([&] { tokenizer->encode("\xE4\xB8\xAD"); }, "U+4E2D", {});
}

}  // namespace
}  // namespace gpt
